"""CESQL on one core: what an evaluation and a parse cost.

    python benchmarks/cesql.py

An evaluation is one call of ``Expression.test``, the closure that the matcher calls; the figure is
the slower of an event that matches and one that does not. A parse takes a text that was never
seen before: nothing is cached. Each figure is the median of several runs, the collector off as
``timeit`` has it.
"""

import itertools
import json
import statistics
import sys
import timeit

from distributary import cesql

SIMPLE = "type = 'com.example.reading'"
JOINED = "type = 'com.example.reading' AND source LIKE '/sensors/%' AND EXISTS subject"

MATCHING = {
    "specversion": "1.0",
    "id": "1234567",
    "source": "/sensors/tn-1234567",
    "type": "com.example.reading",
    "subject": "abc",
    "datacontenttype": "application/json",
}
OTHERS = (
    MATCHING | {"type": "com.example.other"},
    MATCHING | {"source": "/elsewhere/tn-1234567"},
    {name: value for name, value in MATCHING.items() if name != "subject"},
)
"""Each fails at another place; the last one as late as it can."""

RUNS = 9


def measure(scale=1.0):
    """CESQL: evaluate and parse, one core, no server."""
    return {
        "cesql_simple": _evaluation_us(SIMPLE, int(200_000 * scale)),
        "cesql_joined": _evaluation_us(JOINED, int(200_000 * scale)),
        "cesql_parse": _parse_us(max(10, int(200 * scale))),
    }


def _evaluation_us(text, count):
    test = cesql.parse(text).test
    assert test(MATCHING)
    events = [event for event in (MATCHING, *OTHERS) if event is MATCHING or not test(event)]
    assert len(events) > 1
    return max(_median_us(_calls(test, event), count) for event in events)


def _calls(test, event):
    return timeit.Timer("test(event)", globals={"test": test, "event": event})


def _parse_us(count):
    cesql.parse(SIMPLE)  # the first one imports the parser
    numbers = itertools.count()
    parse = cesql.parse

    def one():
        parse(JOINED.replace("reading", f"reading{next(numbers)}"))

    return _median_us(timeit.Timer(one), count)


def _median_us(timer, count):
    """Microseconds a call: the median of several runs of *count* calls."""
    return statistics.median(timer.repeat(RUNS, count)) * 1e6 / count


def main():
    """Print the figures as one JSON object, with their targets."""
    import _figures  # noqa: PLC0415 - a program's own folder is a place to import from

    found = {
        name: {
            "us": round(value, 3),
            "target_us": _figures.BY_NAME[name].target,
            "of_target": round(value / _figures.BY_NAME[name].target, 3),
        }
        for name, value in measure().items()
    }
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    sys.exit(main())
