"""Every fault of a filters array at once, each with its place."""

import json

import pytest

from distributary.core import filter as filters

GOOD = {"exact": {"type": "a"}}


def places(value, **kwargs):
    """Path and code of every fault."""
    return [(fault.path, fault.code) for fault in filters.check(value, **kwargs)]


def nested(depth, dialect="not"):
    """An expression in which the innermost stands at *depth*, the outermost at 1."""
    expression = GOOD
    for _ in range(depth - 1):
        expression = {dialect: expression if dialect == "not" else [expression]}
    return expression


@pytest.mark.parametrize(
    ("value", "faults"),
    [
        (None, [("$.filters", "type")]),
        ("x", [("$.filters", "type")]),
        (GOOD, [("$.filters", "type")]),
        (5, [("$.filters", "type")]),
        ([None], [("$.filters[0]", "type")]),
        ([[GOOD]], [("$.filters[0]", "type")]),
        (["exact"], [("$.filters[0]", "type")]),
        ([{}], [("$.filters[0]", "empty")]),
        ([GOOD, {"regex": {}}], [("$.filters[1].regex", "unknown-dialect")]),
        ([{"Exact": {"type": "a"}}], [("$.filters[0].Exact", "unknown-dialect")]),
        ([{"exact": {"a": "b"}, "prefix": {"a": "b"}}], [("$.filters[0]", "one-dialect")]),
        ([{"exact": {}}], [("$.filters[0].exact", "empty")]),
        ([{"prefix": {}}], [("$.filters[0].prefix", "empty")]),
        ([{"suffix": {}}], [("$.filters[0].suffix", "empty")]),
        ([{"exact": []}], [("$.filters[0].exact", "type")]),
        ([{"exact": "type"}], [("$.filters[0].exact", "type")]),
        ([{"exact": None}], [("$.filters[0].exact", "type")]),
        ([{"exact": {"type": 5}}], [("$.filters[0].exact.type", "type")]),
        ([{"prefix": {"type": None}}], [("$.filters[0].prefix.type", "type")]),
        ([{"suffix": {"type": ["a"]}}], [("$.filters[0].suffix.type", "type")]),
        ([{"exact": {"type": ""}}], [("$.filters[0].exact.type", "empty")]),
        ([{"exact": {"": "a"}}], [('$.filters[0].exact[""]', "empty")]),
        ([{"exact": {"Type": "a"}}], [("$.filters[0].exact.Type", "attribute-name")]),
        ([{"exact": {"my_type": "a"}}], [("$.filters[0].exact.my_type", "attribute-name")]),
        ([{"exact": {"a-b": "a"}}], [('$.filters[0].exact["a-b"]', "attribute-name")]),
        ([{"exact": {"type\n": "a"}}], [('$.filters[0].exact["type\\n"]', "attribute-name")]),
        ([{"exact": {"ä": "a"}}], [('$.filters[0].exact["\\u00e4"]', "attribute-name")]),
        ([{"exact": {"type": "\ud800"}}], [("$.filters[0].exact.type", "unicode")]),
        ([{"exact": {"type": "a\udfffb"}}], [("$.filters[0].exact.type", "unicode")]),
        ([{"exact": {"A" * 64: "a"}}], [(f"$.filters[0].exact.{'A' * 64}", "attribute-name")]),
        (
            [{"exact": {"A" * 65: "a"}}],
            [(f'$.filters[0].exact["{"A" * 64}..."]', "attribute-name")],
        ),
        (
            [{"exact": {"-" * 64: "a"}}],
            [(f'$.filters[0].exact["{"-" * 64}"]', "attribute-name")],
        ),
        ([{"exact": {"type": "a" * 8193}}], [("$.filters[0].exact.type", "too-long")]),
        ([{"exact": {"a" * 8193: "a"}}], [(f'$.filters[0].exact["{"a" * 64}..."]', "too-long")]),
        ([{"all": []}], [("$.filters[0].all", "empty")]),
        ([{"any": []}], [("$.filters[0].any", "empty")]),
        ([{"all": GOOD}], [("$.filters[0].all", "type")]),
        ([{"any": "x"}], [("$.filters[0].any", "type")]),
        ([{"all": [GOOD, 5]}], [("$.filters[0].all[1]", "type")]),
        ([{"not": [GOOD]}], [("$.filters[0].not", "type")]),
        ([{"not": None}], [("$.filters[0].not", "type")]),
        ([{"not": {}}], [("$.filters[0].not", "empty")]),
        (
            [{"any": [{"not": {"all": [GOOD, {"exact": {"A": ""}}]}}]}],
            [
                ("$.filters[0].any[0].not.all[1].exact.A", "attribute-name"),
                ("$.filters[0].any[0].not.all[1].exact.A", "empty"),
            ],
        ),
    ],
    ids=lambda value: repr(value)[:60],
)
def test_a_fault_is_named_with_its_place(value, faults):
    """Decision 7: rejected, naming the JSON path."""
    assert places(value) == faults


def test_all_faults_are_named_at_once():
    """One round trip is enough to correct them all."""
    value = [{"exact": {}}, {"regex": {}}, {"all": [{}, {"not": {"any": []}}]}, 7]
    assert places(value) == [
        ("$.filters[0].exact", "empty"),
        ("$.filters[1].regex", "unknown-dialect"),
        ("$.filters[2].all[0]", "empty"),
        ("$.filters[2].all[1].not.any", "empty"),
        ("$.filters[3]", "type"),
    ]


def test_two_dialects_in_one_object_are_checked_both():
    """The faults inside each are named beside the fault of having two."""
    assert places([{"exact": {}, "regex": {}}]) == [
        ("$.filters[0]", "one-dialect"),
        ("$.filters[0].exact", "empty"),
        ("$.filters[0].regex", "unknown-dialect"),
    ]


def test_an_unknown_dialect_is_told_the_known_ones():
    """The message says what there is."""
    (fault,) = filters.check([{"regex": {}}])
    for name in filters.DIALECTS:
        assert name in fault.message


def test_the_root_of_the_paths_is_the_callers():
    """A trigger's filters stand elsewhere."""
    assert places([{}], path="$.spec.filters") == [("$.spec.filters[0]", "empty")]


@pytest.mark.parametrize("dialect", ["not", "all", "any"])
def test_nesting_stops_at_the_limit(dialect):
    """32 deep is accepted, 33 is a fault at the place where it is too deep."""
    assert filters.DEPTH_MAX == 32
    assert places([nested(31, dialect)]) == []
    assert places([nested(32, dialect)]) == []
    ((path, code),) = places([nested(33, dialect)])
    assert code == "too-deep"
    assert path.count(f".{dialect}") == 32


@pytest.mark.parametrize("depth", [200, 5_000])
def test_deep_input_is_a_fault_and_never_a_recursion_error(depth):
    """H12: a 200-deep filter answers 4xx."""
    assert [code for _, code in places([nested(depth)])] == ["too-deep"]
    assert [code for _, code in places([nested(depth, "all")])] == ["too-deep"]


def test_a_filter_at_the_depth_limit_can_be_compiled_and_evaluated():
    """What the check lets through works."""
    compiled = filters.compile([nested(32)])
    assert compiled.matches({"type": "a"}) is False  # 31 nots
    assert filters.naive_matches([nested(32)], {"type": "a"}) is False


@pytest.mark.parametrize(
    "build",
    [
        lambda count: [GOOD] * (count // 2),
        lambda count: [{"any": [GOOD] * ((count - 1) // 2)}],
        lambda count: [{"exact": {f"a{i}": "x" for i in range(count - 1)}}],
    ],
    ids=["array", "any", "attributes"],
)
def test_the_number_of_nodes_stops_at_the_limit(build):
    """Expressions and comparisons together: 1,000 are accepted, more are a fault."""
    assert filters.NODES_MAX == 1_000
    assert places(build(1_000)) == []
    assert places(build(1_002)) == [("$.filters", "too-many")]


def test_too_many_nodes_are_told_once_beside_the_other_faults():
    """A million faults are not reported; the first thousand nodes are."""
    faults = places([{"exact": {"A": "x"}}] * 1_000_000)
    assert faults.count(("$.filters", "too-many")) == 1
    assert faults[0] == ("$.filters[0].exact.A", "attribute-name")
    assert len(faults) == 501


@pytest.mark.parametrize(
    "value",
    [
        [{f"x{i}": 1 for i in range(100_000)}],
        [{"exact": {f"A{i}": "" for i in range(100_000)}}],
        [{"all": [{}] * 100_000}],
        [{}] * 100_000,
        [{"any": [{"all": [{"not": {}}] * 40}] * 40}],
    ],
    ids=["dialects", "attributes", "all", "array", "tree"],
)
def test_the_number_of_faults_is_bounded(value):
    """However large the input, the answer stays small."""
    assert 0 < len(filters.check(value)) <= 2_002


def test_names_of_the_client_are_cut_and_escaped():
    """H17: a name of a megabyte or with control characters does not come back as it is."""
    for name in ("x" * 1_000_000, "\x1b[31m\r\n" * 100):
        for value in ([{name: {}}], [{"exact": {name: "a"}}]):
            (fault,) = filters.check(value)
            assert len(fault.path) < 500
            assert len(fault.message) < 600
            assert fault.path.isprintable()
            assert fault.message.isprintable()


def test_a_text_at_its_limit_is_accepted():
    """The boundary of TEXT_CHARS_MAX, for names and texts."""
    assert filters.TEXT_CHARS_MAX == 8_192
    assert filters.check([{"exact": {"a" * 8_192: "a" * 8_192}}]) == []


def test_json_as_it_comes_is_accepted():
    """The examples of the specification."""
    text = """[
      {"exact": {"type": "com.github.push", "subject": "https://github.com/cloudevents/spec"}},
      {"prefix": {"type": "com.github.", "subject": "https://github.com/cloudevents"}},
      {"suffix": {"type": ".created", "subject": "/cloudevents/spec"}},
      {"all": [{"exact": {"type": "com.github.push"}}, {"exact": {"subject": "x"}}]},
      {"any": [{"exact": {"type": "com.github.push"}}, {"exact": {"subject": "x"}}]},
      {"not": {"exact": {"type": "com.github.push"}}}
    ]"""
    assert filters.check(json.loads(text)) == []
