"""What a Trigger may hold: broker, filters of both shapes, subscriber, delivery."""

import pytest

from distributary.knative.apiserver.machinery import StatusError
from distributary.knative.apiserver.machinery.metadata_faults import CAUSES_MAX
from distributary.knative.kinds import TRIGGER, admit, defaulted

FILTERS = "spec.filters"
ATTRIBUTES = "spec.filter.attributes"


def attributes(**members):
    """A ``spec.filter`` of these attributes."""
    return {"filter": {"attributes": members}}


CASES = {
    "no broker": ({"broker": ...}, ("spec.broker", "Required")),
    "broker empty": ({"broker": ""}, ("spec.broker", "Required")),
    "broker not text": ({"broker": 1}, ("spec.broker", "TypeInvalid")),
    "broker no DNS name": ({"broker": "a_b"}, ("spec.broker", "Invalid")),
    "no subscriber": ({"subscriber": ...}, ("spec.subscriber", "Required")),
    "subscriber empty": ({"subscriber": {}}, ("spec.subscriber", "Required")),
    "subscriber text": ({"subscriber": "http://a"}, ("spec.subscriber", "TypeInvalid")),
    "attributes no map": ({"filter": {"attributes": []}}, (ATTRIBUTES, "TypeInvalid")),
    "attribute not text": (attributes(n=1), (f"{ATTRIBUTES}[n]", "TypeInvalid")),
    "attribute null": (attributes(n=None), (f"{ATTRIBUTES}[n]", "TypeInvalid")),
    "attribute too long": (attributes(n="x" * 9000), (f"{ATTRIBUTES}[n]", "TooLong")),
    "attributes too many": (
        attributes(**{f"a{n}": "x" for n in range(1001)}),
        (ATTRIBUTES, "TooMany"),
    ),
    "filter misspelt": ({"filter": {"type": "a"}}, ("spec.filter.type", "Forbidden")),
    "filters no list": ({"filters": {}}, (FILTERS, "TypeInvalid")),
    "filter no object": ({"filters": ["x"]}, (f"{FILTERS}[0]", "TypeInvalid")),
    "dialect unknown": ({"filters": [{"exat": {}}]}, (f"{FILTERS}[0].exat", "NotSupported")),
    "expression empty": ({"filters": [{}]}, (f"{FILTERS}[0]", "Invalid")),
    "two dialects": (
        {"filters": [{"exact": {"a": "b"}, "prefix": {"a": "b"}}]},
        (f"{FILTERS}[0]", "Invalid"),
    ),
    "sql twice": ({"filters": [{"cesql": "TRUE", "sql": "TRUE"}]}, (f"{FILTERS}[0]", "Invalid")),
    "cesql wrong": ({"filters": [{"cesql": "type ="}]}, (f"{FILTERS}[0].cesql", "Invalid")),
    "sql wrong": ({"filters": [{"sql": "type ="}]}, (f"{FILTERS}[0].sql", "Invalid")),
    "cesql wrong, nested": (
        {"filters": [{"any": [{"not": {"all": [{"cesql": ""}]}}]}]},
        (f"{FILTERS}[0].any[0].not.all[0].cesql", "Invalid"),
    ),
    "delivery no object": ({"delivery": 3}, ("spec.delivery", "TypeInvalid")),
}


@pytest.mark.parametrize(("spec", "cause"), CASES.values(), ids=CASES)
def test_names_the_field_of_what_is_wrong(spec, cause, make, causes_of):
    """One fault gives one cause, at the path that the client wrote."""
    assert causes_of(TRIGGER, make(TRIGGER, **spec)) == [cause]


@pytest.mark.parametrize(
    "name",
    ["SOURCE", "Source", "souRce", "s pace s", "s_pace_s", "s-pace-s", "123", "😀", "so!rce", ""],
)
def test_refuses_names_that_no_attribute_has(name, make, causes_of):
    """Names of attributes begin with a lower-case letter and have letters and digits only."""
    found = causes_of(TRIGGER, make(TRIGGER, **attributes(**{name: "x"})))
    assert [reason for _, reason in found] == ["Invalid"]


def test_a_filter_that_is_overridden_is_checked_as_well(make, causes_of):
    """What stands in ``filter`` may count tomorrow."""
    spec = {"filters": [{"exact": {"type": "a"}}], **attributes(BAD="x")}
    assert causes_of(TRIGGER, make(TRIGGER, **spec)) == [(f"{ATTRIBUTES}[BAD]", "Invalid")]


def test_names_all_faults_at_once(make, causes_of):
    """Types, bounds, filters and destinations are all looked at."""
    wrong = make(
        TRIGGER,
        broker=...,
        subscriber={"uri": "ftp://x"},
        filters=[{"cesql": "("}],
        delivery={"retry": "3", "backoffDelay": "1s"},
    )
    assert {field for field, _ in causes_of(TRIGGER, wrong)} == {
        "spec.broker",
        "spec.subscriber.uri",
        "spec.filters[0].cesql",
        "spec.delivery.retry",
        "spec.delivery.backoffDelay",
    }


def test_without_a_spec_names_what_it_needs(causes_of):
    """Two rounds are not needed to learn what a Trigger has."""
    assert causes_of(TRIGGER, {"metadata": {"name": "x"}}) == [
        ("spec.broker", "Required"),
        ("spec.subscriber", "Required"),
    ]


def test_is_worded_as_the_api_server_words_it(make, rules):
    """Kubectl shows the message as it comes."""
    with pytest.raises(StatusError) as caught:
        admit(TRIGGER, make(TRIGGER, broker=..., subscriber=...), None, rules)
    assert str(caught.value) == (
        'Trigger.eventing.knative.dev "x" is invalid: '
        "[spec.broker: Required value, spec.subscriber: Required value]"
    )


def test_names_a_bounded_number_of_faults(make, causes_of):
    """An answer is no amplifier."""
    names = {f"A{n}": "x" for n in range(CAUSES_MAX + 5)}
    found = causes_of(TRIGGER, make(TRIGGER, **attributes(**names)))
    assert len(found) == CAUSES_MAX + 1
    assert found[-1] == ("", "Invalid")


def test_the_broker_cannot_be_changed(make, causes_of):
    """``spec.broker`` is immutable; everything else is not."""
    old = make(TRIGGER)
    assert causes_of(TRIGGER, make(TRIGGER, broker="other"), old) == [("spec.broker", "Invalid")]
    assert causes_of(TRIGGER, make(TRIGGER, subscriber={"uri": "http://b.example"}), old) == []


def test_an_old_fault_does_not_hold_up_a_write(make, causes_of):
    """What was taken under older rules can still be labelled and ended, but gets no new faults."""
    old = make(TRIGGER, filters=[{"cesql": "("}])
    labelled = {**old, "metadata": {**old["metadata"], "labels": {"a": "b"}}}
    assert causes_of(TRIGGER, labelled, old) == []
    worse = make(TRIGGER, filters=[{"cesql": "("}], delivery={"retry": -1})
    assert causes_of(TRIGGER, worse, old) == [("spec.delivery.retry", "Invalid")]


def test_deep_filters_are_refused_not_followed(make, rules):
    """Depth is bounded by the check, whatever was sent."""
    deep = {"cesql": "TRUE"}
    for _ in range(200):
        deep = {"not": deep}
    with pytest.raises(StatusError, match="at most 32 deep"):
        admit(TRIGGER, make(TRIGGER, filters=[deep]), None, rules)


def test_the_label_of_the_broker_is_filled_in(make):
    """Knative's users select Triggers by it; a wrong one is put right."""
    wrong = make(TRIGGER, broker="orders")
    wrong["metadata"]["labels"] = {"a": "b", "eventing.knative.dev/broker": "other"}
    labels = defaulted(TRIGGER, wrong, None)["metadata"]["labels"]
    assert labels == {"a": "b", "eventing.knative.dev/broker": "orders"}
