"""How names in grants are spelt: patterns without anchors, which ECMA-262 reads the same."""

from typing import Final

from distributary.core.tenant import NAMESPACE_PATTERN as NAMESPACE

__all__ = ["KEY_ID", "KEY_NAME", "KEY_NAME_EXPECTED", "NAMESPACE", "TARGET"]

KEY_NAME: Final = "[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?"
KEY_NAME_EXPECTED: Final = "1 to 63 letters, digits, dots, dashes and underscores"

TARGET: Final = "(?:brokers|channels)/[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?"
"""A Broker or Channel in a namespace that is named elsewhere."""

KEY_ID: Final = "[a-z2-7]{16}"
