"""Filter expressions of subscriptions and triggers: checked, compiled, evaluated. Pure.

Called by ``control`` (checks what clients send), ``route`` (compiles, and matches every event)
and the command line (tries a filter on an event). Hides the dialects: each is one file with four
functions and one row in the registry, and nothing outside this room knows one by name.
"""

from distributary.filter._check import DEPTH_MAX, NODES_MAX, check
from distributary.filter._comparison import TEXT_CHARS_MAX
from distributary.filter._compile import Filter, compile  # noqa: A004 - read as filter.compile
from distributary.filter._cover import breadth
from distributary.filter._dialect import Attributes, Cover, Part, Predicate, Test
from distributary.filter._explain import explain
from distributary.filter._explanation import Explanation
from distributary.filter._join import all_of
from distributary.filter._naive import naive_matches
from distributary.filter._registry import DIALECTS

__all__ = [
    "DEPTH_MAX",
    "DIALECTS",
    "NODES_MAX",
    "TEXT_CHARS_MAX",
    "Attributes",
    "Cover",
    "Explanation",
    "Filter",
    "Part",
    "Predicate",
    "Test",
    "all_of",
    "breadth",
    "check",
    "compile",
    "explain",
    "naive_matches",
]
