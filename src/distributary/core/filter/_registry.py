"""The registry of dialects. To add one: a file with the four functions, and a row here."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from distributary.core.filter import _not, _sql
from distributary.core.filter._comparison import EXACT, PREFIX, SUFFIX
from distributary.core.filter._dialect import Dialect
from distributary.core.filter._nested import ALL, ANY

REGISTRY: Final[Mapping[str, Dialect]] = MappingProxyType(
    {
        "exact": EXACT,
        "prefix": PREFIX,
        "suffix": SUFFIX,
        "all": ALL,
        "any": ANY,
        "not": _not,
        "sql": _sql,
    }
)
"""Name in JSON -> dialect, in the order of the specification."""

DIALECTS: Final = tuple(REGISTRY)
"""Names of the dialects, as service descriptions and messages list them."""
