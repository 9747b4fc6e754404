import pytest

from distributary.cli import _subscribe
from distributary.cli._subscribe import Wish

SINK = "http://127.0.0.1:9000"


def test_a_sink_alone_is_enough() -> None:
    """What is not said is left to the server's defaults."""
    assert _subscribe.body_of(Wish(sink=SINK)) == {"sink": SINK, "protocol": "HTTP"}


def test_every_flag_has_its_member() -> None:
    """Flags become the object of the Subscriptions API."""
    wish = Wish(
        sink=SINK,
        types=("a", "b"),
        source="/s",
        filters=('{"not": {"exact": {"id": "1"}}}',),
        sql=("type LIKE 'com.%'",),
        exact=("subject=x=y",),
        prefix=("type=com.",),
        suffix=("id=",),
        headers=("X-Key: a:b",),
        format="structured",
        retry=0,
        backoff_policy="linear",
        backoff_delay="PT1S",
        backoff_max="PT9S",
        timeout="PT5S",
        rate_limit=2.5,
        dead_letter_sink="http://127.0.0.1:9001",
        start="earliest",
        expires="2100-01-01T00:00:00Z",
        max_events=7,
        interval=1.5,
        data="null",
    )
    assert _subscribe.body_of(wish) == {
        "sink": SINK,
        "protocol": "HTTP",
        "types": ["a", "b"],
        "source": "/s",
        "config": {
            "start": "earliest",
            "expires": "2100-01-01T00:00:00Z",
            "maxevents": 7,
            "interval": 1.5,
            "data": None,
        },
        "filters": [
            {"not": {"exact": {"id": "1"}}},
            {"sql": "type LIKE 'com.%'"},
            {"exact": {"subject": "x=y"}},
            {"prefix": {"type": "com."}},
            {"suffix": {"id": ""}},
        ],
        "protocolsettings": {
            "headers": {"X-Key": "a:b"},
            "format": "structured",
            "delivery": {
                "retry": 0,
                "backoffPolicy": "linear",
                "backoffDelay": "PT1S",
                "backoffMax": "PT9S",
                "timeout": "PT5S",
                "rateLimit": 2.5,
                "deadLetterSink": "http://127.0.0.1:9001",
            },
        },
    }


@pytest.mark.parametrize(
    "wish",
    [
        Wish(sink=SINK, filters=("{",)),
        Wish(sink=SINK, exact=("type",)),
        Wish(sink=SINK, prefix=("=x",)),
        Wish(sink=SINK, headers=("X-Key=a",)),
    ],
    ids=["filter no JSON", "pair without =", "pair without name", "header without :"],
)
def test_a_flag_that_cannot_be_read_is_named(wish: Wish) -> None:
    """The text that was given stands in the message."""
    given = (*wish.filters, *wish.exact, *wish.prefix, *wish.headers)[0]
    with pytest.raises(ValueError) as caught:
        _subscribe.body_of(wish)
    assert repr(given) in str(caught.value)
