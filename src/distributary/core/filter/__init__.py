"""Filter expressions of subscriptions and Triggers: checked, compiled, evaluated. Pure.

Called by ``subscriptions`` and ``knative`` (check specs), ``route`` (compiles, and matches every
event) and the command line (tries a filter on an event). Hides the dialects: each is one file with
four functions and one row in the registry; no other package knows one by name.
"""

from distributary.core.filter._check import DEPTH_MAX, NODES_MAX, check
from distributary.core.filter._comparison import TEXT_CHARS_MAX
from distributary.core.filter._compile import Filter, compile  # noqa: A004 - read as filter.compile
from distributary.core.filter._cover import selectivity
from distributary.core.filter._dialect import Attributes, Cover, Part, Predicate, Test
from distributary.core.filter._explain import explain
from distributary.core.filter._explanation import Explanation
from distributary.core.filter._join import all_of
from distributary.core.filter._naive import naive_matches
from distributary.core.filter._registry import DIALECTS
