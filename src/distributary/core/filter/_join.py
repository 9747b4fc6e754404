"""Conjunction and disjunction of tests as closures, unrolled for few tests, for speed."""

from collections.abc import Sequence

from distributary.core.filter._dialect import Attributes, Test


def always(_attributes: Attributes) -> bool:
    """Pass every event."""
    return True


def all_of(tests: Sequence[Test]) -> Test:
    """Return a test that passes if every one of *tests* does; no tests: always."""
    if not tests:
        return always
    if len(tests) == 1:
        return tests[0]
    if len(tests) == 2:
        first, second = tests
        return lambda attributes: first(attributes) and second(attributes)
    each = tuple(tests)

    def test(attributes: Attributes) -> bool:
        for one in each:  # noqa: SIM110 - all() with a generator costs three times as much
            if not one(attributes):
                return False
        return True

    return test


def any_of(tests: Sequence[Test]) -> Test:
    """Return a test that passes if at least one of *tests* does."""
    assert tests
    if len(tests) == 1:
        return tests[0]
    if len(tests) == 2:
        first, second = tests
        return lambda attributes: first(attributes) or second(attributes)
    each = tuple(tests)

    def test(attributes: Attributes) -> bool:
        for one in each:  # noqa: SIM110 - any() with a generator costs three times as much
            if one(attributes):
                return True
        return False

    return test
