"""What ``all`` and ``any`` share: an array of at least one filter expression."""

from distributary.filter._dialect import Checker


def check(value: object, checker: Checker, path: str) -> None:
    """Report every fault of an array of filter expressions, and of each expression in it."""
    if not isinstance(value, list | tuple):
        checker.fault(path, "type", "expected an array of filter expressions")
        return
    if not value:
        checker.fault(path, "empty", "expected at least one filter expression")
    for index, expression in enumerate(value):
        at = f"{path}[{index}]"
        if not checker.count(at):
            return
        checker.expression(expression, at)
