"""The public cases of the CESQL test kit, run as they stand."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest
import yaml

from distributary import cesql
from kit import given

ANY_EVENT = {"specversion": "1.0", "id": "myId", "source": "/source", "type": "myType"}


class WithoutTimes(yaml.SafeLoader):
    """Reads a timestamp as the text it is, as an event carries it."""


WithoutTimes.yaml_implicit_resolvers = {
    first: [(tag, regexp) for tag, regexp in resolvers if not tag.endswith(":timestamp")]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def cases() -> Iterator[Any]:
    """Every case of every file; an expression is a text even where YAML sees TRUE or 1 in it."""
    for path in sorted(given.CESQL.glob("*.yaml")):
        text = path.read_text(encoding="utf-8")
        typed = yaml.load(text, WithoutTimes)["tests"]
        texts = yaml.load(text, yaml.BaseLoader)["tests"]
        for case, raw in zip(typed, texts, strict=True):
            case["expression"] = raw["expression"]
            yield pytest.param(case, id=f"{path.stem}: {case['name']}")


CASES = list(cases())


def test_the_cases_are_there():
    """A run without them says so; a folder with few of them is a mistake."""
    given.needed(given.CESQL)
    assert len(CASES) > 150
    assert not any(
        isinstance(value, datetime)
        for case in CASES
        for value in {
            **case.values[0].get("event", {}),
            "result": case.values[0].get("result"),
        }.values()
    )


@pytest.mark.clause(
    "CESQL test kit", "MUST", "each given case has its result, its type and its kind of error"
)
@pytest.mark.parametrize("case", CASES)
def test_a_case_of_the_kit(case):
    """Value, type of the value, and kind of error, all three; the fast path agrees."""
    attributes = {**case.get("event", ANY_EVENT), **case.get("eventOverrides", {})}
    if case.get("error") == "parse":
        with pytest.raises(cesql.CesqlSyntaxError):
            cesql.parse(case["expression"])
        return

    expression = cesql.parse(case["expression"])
    value, error = expression.evaluate(attributes)

    assert (error and error.kind) == case.get("error")
    if "result" in case:
        assert (type(value), value) == (type(case["result"]), case["result"])
    assert expression.test(attributes) is (value is True and error is None)
