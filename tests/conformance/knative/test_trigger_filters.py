"""Filters of Triggers: attributes by the text, and the dialects of the newer releases."""

import itertools

import pytest

from distributary.knative.kinds import TRIGGER
from kit.knative_client import event_attributes

pytestmark = [pytest.mark.spark, pytest.mark.slow]

VALID = {
    "source": "/a/source",
    "id": "an id",
    "specversion": "1.0",
    "type": "the type",
    "subject": "a subject",
    "time": "2026-11-21T12:00:00Z",
    "datacontenttype": "application/json",
    "dataschema": "https://example.com/schema",
    "aaa": "bbb",
    "c1d2e3": "123",
    "abcdefghijklmnopqrst": "twenty characters",
}
"""Names that a filter may have, each with a value of an event."""

INVALID = [
    "SOURCE",
    "Source",
    "souRce",
    "s pace s",
    "s_pace_s",
    "s-pace-s",
    "123",
    "😊",
    "!@#$%^&*()-_=_`~+\\",
    "{}[];':\"<>,./?",
    "",
]


class Filtered:
    """A Broker, and one Trigger with a filter for each check."""

    def __init__(self, world) -> None:
        self.world = world
        self.address = world.broker()
        self.count = 0

    def check(self, spec, passed, withheld) -> None:
        """Of events with these attributes exactly those of *passed* are delivered."""
        self.count += 1
        sink = self.world.sink(name=f"s{self.count}")
        self.world.trigger(sink.url, f"t{self.count}", **spec)
        events = [event_attributes(**attributes) for attributes in (*withheld, *passed)]
        for _version, alike in itertools.groupby(events, lambda event: event["specversion"]):
            self.world.publish_batch(self.address, alike)  # a batch has one version
        wanted = [event["id"] for event in events[len(withheld) :]]
        sink.wait_for(*wanted)
        assert sorted(sink.ids) == sorted(wanted)


@pytest.fixture
def filtered(world) -> Filtered:
    """Ready to check."""
    return Filtered(world)


def types(*names):
    """Events of these types."""
    return [{"type": name} for name in names]


@pytest.mark.clause("knative.filter.attributes.compared")
@pytest.mark.clause("knative.filter.attributes.exact")
@pytest.mark.parametrize("name", VALID)
def test_every_attribute_can_be_compared(filtered, name):
    """Required, optional and extension attributes alike."""
    others = {
        "specversion": "0.3",
        "time": "2026-11-21T12:00:01Z",
        "datacontenttype": "text/plain",
        "dataschema": "https://example.com/other",
    }
    other = VALID | {name: others.get(name, "other")}
    filtered.check({"filter": {"attributes": {name: VALID[name]}}}, [VALID], [other])


def test_a_filter_takes_many_attributes(filtered):
    """All the valid names at once."""
    filtered.check({"filter": {"attributes": VALID}}, [VALID], [VALID | {"aaa": "b"}, {}])
    shown = filtered.world.read(TRIGGER, "t1")
    assert shown["spec"]["filter"]["attributes"] == VALID


@pytest.mark.parametrize("name", INVALID)
def test_a_name_that_no_attribute_can_have_is_refused(world, name):
    """On creation and on update; in the old form, and but for digits in the dialects."""
    spec = {"broker": "b", "subscriber": {"uri": world.nowhere}}
    made = world.create(TRIGGER, "t", spec)
    wrong_ones = [{"filter": {"attributes": {name: "x"}}}]
    if not name.isdecimal():  # CloudEvents has no rule against such a name
        dialects = [{dialect: {name: "x"}} for dialect in ("exact", "prefix", "suffix")]
        wrong_ones += [{"filters": [each]} for each in (*dialects, {"not": dialects[0]})]
    for wrong in wrong_ones:
        faults = world.faulty_fields(world.propose(TRIGGER, "x", spec | wrong))
        assert all(fault.startswith("spec.filter") for fault in faults), faults
        assert world.faulty_fields(world.merge(TRIGGER, "t", {"spec": wrong})) == faults
    assert world.read(TRIGGER, "t")["spec"] == made["spec"]


@pytest.mark.clause("knative.filter.attributes.all")
@pytest.mark.clause("knative.filter.attributes.present")
def test_all_attributes_of_a_filter_match_or_none(filtered):
    """An attribute that the event does not have does not match."""
    both = {"type": "a", "x": "1"}
    filtered.check(
        {"filter": {"attributes": both}},
        [both],
        [{"type": "a"}, {"x": "1"}, {"type": "a", "x": "2"}, {"type": "b", "x": "1"}, {}],
    )


@pytest.mark.clause("knative.filter.attributes.exact")
def test_values_are_compared_exactly(filtered):
    """Neither upper case nor spaces nor parts of it will do."""
    filtered.check(
        {"filter": {"attributes": {"type": "com.Example"}}},
        types("com.Example"),
        types("com.example", "COM.EXAMPLE", "com.Example.x", "com.Exampl", "com.Example "),
    )


@pytest.mark.clause("knative.filter.attributes.any-value")
@pytest.mark.clause("knative.filter.attributes.present")
def test_an_empty_value_matches_every_value_of_an_attribute_that_is_there(filtered):
    """Beside others as well."""
    filtered.check(
        {"filter": {"attributes": {"x": ""}}}, [{"x": "1"}, {"x": "anything"}], [{}, {"y": "1"}]
    )
    filtered.check(
        {"filter": {"attributes": {"x": "", "type": "a"}}},
        [{"x": "1", "type": "a"}],
        [{"type": "a"}, {"x": "1"}],
    )


@pytest.mark.parametrize(
    "chosen",
    [
        {"exact": {"type": "com.example.full", "source": "/full"}},
        {"prefix": {"type": "com.e", "source": "/f"}},
        {"suffix": {"type": "full", "source": "ull"}},
        {"cesql": "type = 'com.example.full' AND source = '/full'"},
        {"sql": "type = 'com.example.full' AND source = '/full'"},
        {"not": {"exact": {"source": "/other"}}},
    ],
    ids=lambda chosen: next(iter(chosen)),
)
def test_one_dialect(filtered, chosen):
    """Each of them, by two attributes."""
    full = {"type": "com.example.full", "source": "/full"}
    filtered.check({"filters": [chosen]}, [full], [{"type": "org.wrong", "source": "/other"}])


def test_any(filtered):
    """One of many dialects is enough."""
    chosen = [
        {"exact": {"type": "exact.event.type"}},
        {"prefix": {"type": "prefix"}},
        {"suffix": {"type": "suffix"}},
        {"not": {"cesql": "type LIKE '%event.type%'"}},
        {"cesql": "type = 'cesql.event.type'"},
    ]
    filtered.check(
        {"filters": [{"any": chosen}]},
        types(
            "exact.event.type",
            "prefix.event.type",
            "event.type.suffix",
            "not.type.event",
            "cesql.event.type",
        ),
        types("not.event.type"),
    )


def test_any_of_several_exact_ones(filtered):
    """By several attributes each."""
    chosen = [{"exact": {"type": "a", "source": "/a"}}, {"exact": {"type": "b"}}]
    filtered.check(
        {"filters": [{"any": chosen}]},
        [{"type": "a", "source": "/a"}, {"type": "b", "source": "/x"}],
        [{"type": "a", "source": "/x"}, {"type": "c"}],
    )


def test_all(filtered):
    """Two or three of four are not enough."""
    chosen = [
        {"exact": {"type": "exact.prefix.suffix.event.type"}},
        {"prefix": {"type": "exact.prefix"}},
        {"suffix": {"type": "suffix.event.type"}},
        {"cesql": "type LIKE 'exact.prefix.suffix%'"},
    ]
    filtered.check(
        {"filters": [{"all": chosen}]},
        types("exact.prefix.suffix.event.type"),
        types(
            "not.event.type",
            "exact.prefix.suffix.event",
            "exact.prefix.suffix.event.suffix.event.type",
        ),
    )


def test_not_and_nesting(filtered):
    """Negation inside of all inside of any."""
    chosen = {
        "any": [
            {"all": [{"prefix": {"type": "a"}}, {"not": {"suffix": {"type": "z"}}}]},
            {"not": {"any": [{"prefix": {"type": "a"}}, {"prefix": {"type": "b"}}]}},
        ]
    }
    filtered.check({"filters": [chosen]}, types("ab", "c"), types("az", "b"))


def test_several_filters_all_hold(filtered):
    """A list is AND."""
    chosen = [{"prefix": {"type": "a"}}, {"suffix": {"type": "z"}}, {"exact": {"x": "1"}}]
    passed = {"type": "a.z", "x": "1"}
    filtered.check(
        {"filters": chosen},
        [passed],
        [passed | {"x": "2"}, {"type": "a.z"}, passed | {"type": "a"}, passed | {"type": "z"}],
    )


@pytest.mark.parametrize("dialect", ["exact", "prefix", "suffix"])
def test_a_missing_attribute_does_not_match(filtered, dialect):
    """So its negation does."""
    filtered.check({"filters": [{dialect: {"x": "1"}}]}, [{"x": "1"}], [{}, {"y": "1"}])
    filtered.check({"filters": [{"not": {dialect: {"x": "1"}}}]}, [{}, {"y": "1"}], [{"x": "1"}])


def test_a_missing_attribute_makes_an_expression_false(filtered):
    """Unless it asks whether it is there."""
    filtered.check({"filters": [{"cesql": "x = '1'"}]}, [{"x": "1"}], [{}])
    filtered.check({"filters": [{"cesql": "NOT EXISTS x"}]}, [{}], [{"x": "1"}])


def test_filters_override_attributes(filtered):
    """Where both are there and filters is not empty."""
    both = {"filter": {"attributes": {"type": "old"}}, "filters": [{"exact": {"type": "new"}}]}
    filtered.check(both, types("new"), types("old"))


def test_empty_filters_do_not_override(filtered):
    """Attributes count then."""
    both = {"filter": {"attributes": {"type": "old"}}, "filters": []}
    filtered.check(both, types("old"), types("new"))


def test_several_triggers_and_sinks(world):
    """Two overlapping any-filters: each sink gets its own, both get what is common."""
    address = world.broker()
    sinks = [world.sink(name=name) for name in ("one", "two")]
    for number, sink in enumerate(sinks, 1):
        chosen = [{"exact": {"type": f"type{number}"}}, {"prefix": {"type": "both"}}]
        world.trigger(sink.url, f"t{number}", filters=[{"any": chosen}])
    ids = world.publish_batch(address, types("type3", "type1", "type2", "both.should"))
    for sink, own in zip(sinks, ids[1:3], strict=True):
        sink.wait_for(own, ids[3])
        assert sorted(sink.ids) == [own, ids[3]]


@pytest.mark.parametrize(
    ("chosen", "path"),
    [
        ({"cesql": "type ="}, "spec.filters[0].cesql"),
        ({"cesql": ""}, "spec.filters[0].cesql"),
        ({"exact": {}}, "spec.filters[0].exact"),
        ({"exact": {"type": ""}}, "spec.filters[0].exact.type"),
        ({"exact": {"type": 1}}, "spec.filters[0].exact.type"),
        ({"all": []}, "spec.filters[0].all"),
        ({"any": [{"not": {"cesql": "(("}}]}, "spec.filters[0].any[0].not.cesql"),
        ({"exact": {"type": "a"}, "prefix": {"type": "a"}}, "spec.filters[0]"),
        ({"regex": {"type": "a"}}, "spec.filters[0]"),
        ({}, "spec.filters[0]"),
        ("type", "spec.filters[0]"),
    ],
)
def test_a_filter_that_cannot_be_understood_is_refused(world, chosen, path):
    """With its path: it never means that everything passes."""
    spec = {"broker": "b", "subscriber": {"uri": world.nowhere}, "filters": [chosen]}
    faults = world.faulty_fields(world.propose(TRIGGER, "t", spec))
    assert len(faults) == 1
    assert faults[0].startswith(path)


def test_a_changed_filter_holds_for_what_comes_after_ready(world):
    """Events before the change are matched by the old one, those after Ready by the new one."""
    sink = world.sink()
    address = world.broker()
    world.trigger(sink.url, filter={"attributes": {"type": "a"}})
    before = world.publish_batch(address, types("a", "b"))
    world.patch(TRIGGER, "t", filter={"attributes": {"type": "b"}})
    world.ready(TRIGGER, "t")
    after = world.publish_batch(address, types("a", "b"))
    sink.wait_for(before[0], after[1])
    assert sorted(sink.ids) == sorted([before[0], after[1]])
