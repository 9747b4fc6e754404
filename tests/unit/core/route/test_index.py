"""What the index promises beside the right answer: bounds, and that it looks at few routes."""

import pytest

from distributary.core import filter as filters
from distributary.core.event import BinaryEvent, Event
from distributary.core.flow import RouteRecord
from distributary.core.route import IndexMatcher, RouteTable, _batches
from distributary.core.route import _index as index_module
from distributary.core.route._route import NewRoute, Route
from distributary.testing.binary_form import in_binary_form

COUNT = 500


def event(**attributes):
    """A valid event of type ``push`` from ``/repo``, changed by *attributes*."""
    plain = {"specversion": "1.0", "id": "1", "source": "/repo", "type": "push"}
    return Event(plain | attributes, None)


def put(uid, *expressions, **what):
    """A route record that creates or replaces *uid*."""
    return RouteRecord(seq=1, op="put", uid=uid, revision=1, filters=expressions, **what)


@pytest.fixture
def matcher():
    """An empty index."""
    return IndexMatcher()


@pytest.fixture
def tested(monkeypatch):
    """Uids of the routes whose tests were called, one entry a call."""
    called = []
    plain = index_module._new_route

    def new_route(order, uid, conditions, cover):
        made = plain(order, uid, conditions, cover)
        test = made.route.test
        if test is not None:
            made.route.test = lambda attributes: called.append(uid) or test(attributes)
        parts = [
            part._replace(
                test=lambda attributes, test=part.test: called.append(uid) or test(attributes)
            )
            for part in made.conjuncts
        ]
        return made._replace(conjuncts=parts)

    monkeypatch.setattr(index_module, "_new_route", new_route)
    return called


@pytest.mark.parametrize(
    "expression",
    [
        {"all": [{"exact": {"type": "t{}"}}, {"not": {"exact": {"id": "2"}}}]},
        {"all": [{"prefix": {"subject": "{}."}}, {"not": {"exact": {"id": "2"}}}]},
        {"all": [{"suffix": {"subject": ".{}"}}, {"not": {"exact": {"id": "2"}}}]},
        {"any": [{"exact": {"subject": "{}.x.{}", "id": "1"}}, {"exact": {"subject": "{}"}}]},
        {"sql": "type = 't{}' AND id <> '2'"},
        {"sql": "subject LIKE '{}.%' AND id <> '2'"},
    ],
    ids=str,
)
def test_an_event_meets_only_the_routes_that_it_can_match(matcher, tested, expression):
    """Not one of the others is tested, however many there are and in whatever dialect."""

    def numbered(value, number):
        if isinstance(value, str):
            return value.replace("{}", str(number))
        if isinstance(value, list):
            return [numbered(one, number) for one in value]
        return {name: numbered(one, number) for name, one in value.items()}

    for number in range(COUNT):
        matcher.put(put(f"r{number}", numbered(expression, number)))
    found = event(type="t7", subject="7.x.7")
    assert matcher.match(found) == ("r7",)
    assert set(tested) == {"r7"}


def test_of_several_conditions_the_one_that_sets_a_route_apart_leads_to_it(matcher, tested):
    """Although all ask for the same type and source first."""
    for number in range(COUNT):
        matcher.put(
            put(f"r{number}", {"exact": {"subject": str(number)}}, source="/repo", types=("push",))
        )
    assert matcher.match(event(subject="7")) == ("r7",)
    assert len(set(tested)) <= 3


@pytest.mark.parametrize(
    ("expression", "first", "others"),
    [
        ({"not": {"exact": {"type": "push"}}}, {}, {"subject": "x"}),
        ({"not": {"any": [{"exact": {"type": "push"}}, {"exact": {"subject": "x"}}]}}, {}, {}),
        ({"sql": "type LIKE '%us%' AND subject LIKE '%x%'"}, {"subject": "z"}, {"id": "2"}),
    ],
    ids=str,
)
def test_verdicts_on_values_that_came_before_are_not_found_again(
    matcher, tested, expression, first, others
):
    """Of routes that no index can find, and that every event meets."""
    for number in range(COUNT):
        matcher.put(put(f"r{number}", expression))
    before = matcher.match(event(**first))
    assert tested
    tested.clear()
    assert matcher.match(event(**first | others)) == before
    assert not tested


def test_a_part_that_few_values_answer_is_not_asked_for_each_combination(matcher, tested):
    """Two attributes with ten values each are twenty answers, not a hundred."""
    for number in range(10):
        matcher.put(
            put(f"r{number}", {"not": {"exact": {"a": "1"}}}, {"not": {"exact": {"b": "1"}}})
        )
    for a in range(10):
        for b in range(10):
            assert len(matcher.match(event(a=str(a), b=str(b)))) == (0 if 1 in {a, b} else 10)
    assert len(tested) == 200


def test_a_memo_forgets_what_a_changed_route_said(matcher):
    """And what a route says that took the place of one which left."""
    matcher.put(put("a", {"not": {"exact": {"type": "push"}}}))
    assert matcher.match(event()) == ()
    matcher.put(put("a", {"not": {"exact": {"type": "pull"}}}))
    assert matcher.match(event()) == ("a",)
    matcher.put(put("b", {"not": {"exact": {"type": "push"}}}))
    assert matcher.match(event()) == ("a",)
    matcher.remove("a")
    matcher.put(put("c", {"not": {"exact": {"type": "push"}}}))
    assert matcher.match(event()) == ()


def test_true_is_not_taken_for_one(matcher):
    """They are equal in Python, but as attributes they are "true" and "1"."""
    matcher.put(put("a", {"not": {"exact": {"n": "1"}}}))
    assert matcher.match(event(n=True)) == ("a",)
    assert matcher.match(event(n=1)) == ()
    assert matcher.match(event(n=True)) == ("a",)
    assert matcher.match(event(n=False)) == ("a",)
    assert matcher.match(event(n=0)) == ("a",)


def entries(matcher):
    """How many values the memos of a matcher hold."""
    return sum(len(group.memo) for batch in matcher._coverless._batches for group in batch._groups)


def test_values_that_never_come_again_fill_no_memory(matcher, monkeypatch):
    """All memos together are bounded, and the answers stay right."""
    monkeypatch.setattr(_batches, "MEMO_ENTRIES_MAX", 100)
    matcher = IndexMatcher()
    for name in ("id", "subject", "n"):
        matcher.put(put(name, {"not": {"exact": {name: "7"}}}))
    most = 0
    for number in range(1_000):
        several = event(id=str(number), subject=f"s{number}", n=number)
        assert len(matcher.match(several)) == (1 if number == 7 else 3)
        most = max(most, entries(matcher))
        assert len(matcher._budget._memos) <= 3
    assert 50 < most <= 100


def test_a_test_that_may_look_at_anything_is_asked_each_time():
    """In the end, where its other parts did not exclude the route."""
    batch = _batches.RouteBatch(_batches.Budget())
    rare = filters.Part(lambda attributes: "b" in attributes, frozenset({"b"}))
    wild = filters.Part(lambda attributes: attributes.get("a") == "1", None)
    route = Route(0, "r", (), lambda attributes: rare.test(attributes) and wild.test(attributes))
    bit = batch.put(NewRoute(route, 2, [rare, wild]))
    for attributes, found in (
        ({"b": "1", "a": "1"}, {0: "r"}),
        ({"b": "1", "a": "2"}, {}),
        ({"a": "1"}, {}),
    ):
        hits = {}
        batch.collect(attributes, hits)
        assert hits == found
    batch.remove(bit)
    batch.collect({"b": "1", "a": "1"}, hits)
    assert hits == {}
    assert not len(batch)


def test_what_is_remembered_of_a_value_ends_with_any_change(matcher):
    """Where all routes ask for one attribute; events are as receivers store them."""
    stored = in_binary_form(event())
    assert type(stored) is BinaryEvent
    matcher.put(put("a", types=("push",)))
    for _ in range(2):
        assert matcher.match(stored) == ("a",)
    matcher.put(put("b", types=("push",)))
    for _ in range(2):
        assert matcher.match(stored) == ("a", "b")
    matcher.remove("a")
    for _ in range(2):
        assert matcher.match(stored) == ("b",)
    matcher.put(put("b", types=("pull",)))
    assert matcher.match(stored) == ()


def test_values_that_never_come_again_are_tested_for_few_routes(matcher, tested, monkeypatch):
    """For those that the other values leave; and after a while they are given another trial."""
    monkeypatch.setattr(_batches, "TRIAL_MISSES_MAX", 10)
    monkeypatch.setattr(_batches, "TRIAL_AFTER_EVENTS", 20)
    for number in range(100):
        matcher.put(
            put(
                f"r{number}",
                {"not": {"not": {"exact": {"type": f"t{number}"}}}},
                {"not": {"exact": {"id": "7"}}},
            )
        )
    calls = []
    for number in range(45):
        tested.clear()
        kind = number % 5
        expected = () if number == 7 else (f"r{kind}",)
        assert matcher.match(event(type=f"t{kind}", id=str(number))) == expected
        calls.append(len(tested))
    assert calls[:9] == [200] * 5 + [100] * 4
    assert calls[10:29] == [1] * 19  # fleeting: of one route, the one with that type
    assert calls[30:39] == [100] * 9  # on trial again
    assert calls[40:] == [1] * 5


def test_nothing_of_a_removed_route_is_tested(matcher, monkeypatch):
    """Of values that are no longer cached, too: a new route may take its place among the others."""
    monkeypatch.setattr(_batches, "TRIAL_MISSES_MAX", 10)
    for number in range(8):
        matcher.put(put(f"r{number}", {"not": {"exact": {"id": "7"}}}))
    for number in range(100, 115):
        matcher.match(event(id=str(number)))
    matcher.remove("r0")
    matcher.put(put("new", {"not": {"exact": {"type": "other"}}}))
    assert matcher.match(event(id="7")) == ("new",)


def test_values_that_come_again_now_and_then_stay_known(matcher, tested, monkeypatch):
    """Half of them are enough."""
    monkeypatch.setattr(_batches, "TRIAL_MISSES_MAX", 10)
    for number in range(20):
        matcher.put(put(f"r{number}", {"not": {"exact": {"id": "7"}}}))
    for number in range(100):
        tested.clear()
        matcher.match(event(id=str(number // 3)))
        assert len(tested) == (20 if number % 3 == 0 else 0)


def test_long_values_fill_no_memory(matcher):
    """They are tested each time."""
    matcher.put(put("a", {"not": {"exact": {"id": "7"}}}))
    assert matcher.match(event(id="x" * _batches.MEMO_CHARS_MAX)) == ("a",)
    assert entries(matcher) == 1
    assert matcher.match(event(id="y" * (_batches.MEMO_CHARS_MAX + 1))) == ("a",)
    assert entries(matcher) == 1


def test_a_snapshot_is_of_the_moment_at_which_it_was_asked_for():
    """What changes until it is made in another thread is not in it."""
    table = RouteTable()
    table.apply(put("a"))
    expected, frozen = table.snapshot(), table.frozen()
    table.apply(RouteRecord(seq=2, op="put", uid="a", revision=2, types=("push",)))
    table.apply(RouteRecord(seq=3, op="put", uid="b", revision=1))
    assert frozen() == expected
    assert table.snapshot() != expected
