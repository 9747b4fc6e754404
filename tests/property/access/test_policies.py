"""Whatever the policies and their changes: each event is decided as a plain look at all decides."""

from hypothesis import given, strategies

from distributary.access import AccessSnapshot, Policies, PolicyRecord, SnapshotReader, all_targets
from distributary.access.policies import JUDGED_MAX
from distributary.core import filter as filter_room
from distributary.core.event import Event
from distributary.server.ingest._policies import PolicyError, check_policies

NAMESPACES = ("a", "b")
KINDS = ("brokers", "channels")
SUBJECTS = ("key:till", "key:tills", "key:", "*", "key:*", "system:namespace:b", "", "s*")
SENDERS = ("key:till", "key:tills", "key:x", "system:namespace:b", "", "*")
TYPES = ("t", "tt", "u")
FILTERS = (
    {"exact": {"type": "t"}},
    {"prefix": {"type": "t"}},
    {"suffix": {"source": "/s"}},
    {"not": {"exact": {"type": "t"}}},
    {"any": [{"exact": {"type": "u"}}, {"sql": "type = 'tt'"}]},
    {"sql": "type IN ('t', 'u') AND NOT EXISTS subject"},
    {"sql": "missing = 'x'"},
)


def targets_in(namespace: str) -> strategies.SearchStrategy[str]:
    """Brokers and Channels of *namespace*, and all of one kind."""
    named = [f"{kind}/{namespace}/{name}" for kind in KINDS for name in ("x", "y")]
    return strategies.sampled_from([*named, *(all_targets(kind, namespace) for kind in KINDS)])


@strategies.composite
def policies(draw) -> list[PolicyRecord]:
    """Policies of some namespaces, with names of their own."""
    found = []
    for number in range(draw(strategies.integers(0, 5))):
        namespace = draw(strategies.sampled_from(NAMESPACES))
        targets = draw(strategies.lists(targets_in(namespace), max_size=3))
        subjects = draw(strategies.lists(strategies.sampled_from(SUBJECTS), max_size=3))
        filters = draw(strategies.lists(strategies.sampled_from(FILTERS), max_size=2))
        record = PolicyRecord(
            name=f"{namespace}/p{number}",
            targets=tuple(targets),
            subjects=tuple(subjects),
            filters=tuple(filters),
        )
        found.append(record)
    return found


def plainly(records: list[PolicyRecord], target: str, subject: str, event: Event) -> bool:
    """Whether *subject* may send *event* to *target*, as the guide says it."""
    kind, namespace, _ = target.split("/")
    meant = [each for each in records if {target, all_targets(kind, namespace)} & {*each.targets}]
    return not meant or any(
        filter_room.naive_matches(each.filters, event.attributes)
        for each in meant
        for named in each.subjects
        if named == subject or (named.endswith("*") and subject.startswith(named[:-1]))
    )


def decided(found: Policies, target: str, subject: str, event: Event) -> bool:
    """The same, as a receiver does."""
    judgement = found.judge(target, subject)
    if judgement.applies and not judgement.allowed:
        return False
    try:
        check_policies([event], judgement.filtered)
    except PolicyError:
        return False
    return True


@given(strategies.lists(policies(), min_size=1, max_size=4), strategies.data())
def test_changes_of_policies_decide_as_a_plain_look_at_them_does(changes, data):
    """Whatever a receiver kept of the ones before, and whatever it was asked meanwhile."""
    reader, found = SnapshotReader(), Policies()
    for records in changes:
        snapshot = AccessSnapshot(policies=tuple(records))
        found = Policies(reader.read(snapshot.encode()).policies, found)
        for _ in range(data.draw(strategies.integers(1, 4))):
            namespace = data.draw(strategies.sampled_from((*NAMESPACES, "c")))
            kind = data.draw(strategies.sampled_from(KINDS))
            target = f"{kind}/{namespace}/{data.draw(strategies.sampled_from(('x', 'y', 'z')))}"
            subject = data.draw(strategies.sampled_from(SENDERS))
            about = {"type": data.draw(strategies.sampled_from(TYPES)), "source": "/s"}
            event = Event({"specversion": "1.0", "id": "1", **about}, None)
            assert decided(found, target, subject, event) is plainly(
                records, target, subject, event
            )


@given(policies(), strategies.permutations(range(JUDGED_MAX + 2)))
def test_a_memory_that_begins_anew_decides_as_before(records, order):
    """However many senders there are."""
    found = Policies(records)
    event = Event({"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}, None)
    for number in order:
        subject = f"key:{number}"
        assert decided(found, "brokers/a/x", subject, event) is plainly(
            records, "brokers/a/x", subject, event
        )
