"""The log's clients log in by SASL, over TLS, and tell nobody the password."""

import asyncio

import pytest

from distributary.core.cluster import KafkaPlace
from distributary.core.errors import LogUnavailableError
from distributary.core.flow import Received
from distributary.core.log.kafka import (
    KafkaAppends,
    KafkaRecords,
    MemorySnapshots,
    prepare_topics,
)
from kit.servers import PASSWORD, USER

pytestmark = pytest.mark.slow

WRONG = "wr0ng-s3cret"


def _place(kafka, authority, **change):
    fields = {
        "servers": (f"localhost:{kafka.tls_port}",),
        "prefix": "logins",
        "tls": True,
        "ca_file": str(authority.ca_file),
        "sasl_mechanism": "PLAIN",
        "user": USER,
        "password": PASSWORD,
    }
    return KafkaPlace(**(fields | change))


def test_the_log_lies_behind_tls_and_a_login(kafka, authority):
    """A topic is made, an event appended and read; one broker needs one replica, and says so."""
    place = _place(kafka, authority)
    assert "has one replica" in prepare_topics(place, 1).warnings[0]

    async def append():
        loop = asyncio.get_running_loop()
        appends = KafkaAppends(place, 1, loop)
        done = loop.create_future()
        appends.submit(Received(b"e", 1, None, by="ann"), done.set_result)
        assert await done is None
        await appends.close()

    asyncio.run(append())
    records = KafkaRecords(place, 0, MemorySnapshots())
    assert [each.body for each in records.read(0, 9)] == [b"e"]
    assert records.publisher(0) == "ann"
    records.close()


@pytest.mark.parametrize(
    "change",
    [{"password": WRONG}, {"ca_file": "/nowhere/ca.pem", "password": WRONG}],
    ids=["password", "authority"],
)
def test_a_login_that_fails_is_an_error_without_secrets(
    kafka, authority, change, monkeypatch, capfd
):
    """Neither the error nor what librdkafka prints has the password."""
    monkeypatch.setattr("distributary.core.log.kafka._topic_admin.ANSWER_S_MAX", 2.0)
    with pytest.raises(LogUnavailableError) as raised:
        prepare_topics(_place(kafka, authority, **change), 1)
    printed = capfd.readouterr()
    for text in (repr(raised.value), str(raised.value.__cause__), printed.out, printed.err):
        assert WRONG not in text
