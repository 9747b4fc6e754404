"""Tenants: one namespace is one tenant. Names of namespaces, and where each listens.

Callers: the Subscriptions API, the receiver, the reconciler and the owners of partitions. Pure.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

DEFAULT_NAMESPACE: Final = "default"
"""The namespace of the short paths (``/subscriptions``, ``/events``), and of everything that names
none."""

BROKER_NAME: Final = "default"
"""Name of the Broker that the subscriptions of a namespace listen to."""

LIFECYCLE_BROKER: Final = "lifecycle"
"""Name of the Broker of each namespace to which the server alone publishes: what becomes of the
namespace's subscriptions."""

NAME_EXPECTED: Final = (
    "a namespace has 1 to 63 of the characters a-z 0-9 - and begins and ends with a letter or digit"
)
"""For people, where ``is_namespace`` is false."""

NAMESPACE_PATTERN: Final = "[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
"""Pattern of a namespace, without anchors; ECMA-262 reads it the same."""

LABEL: Final = re.compile(NAMESPACE_PATTERN)
"""The same, for names of other things that are DNS labels too."""

_MARK: Final = "@"
"""Begins the address of a namespace: neither a uid nor a name of Kubernetes has it."""

_LIFECYCLE_MARK: Final = "!"
"""Begins the address of a Broker ``lifecycle``: likewise."""

NO_ADDRESSES: Final[Mapping[str, str]] = MappingProxyType({})
"""For ``broker_address``: no namespace has an address of its own."""


def is_namespace(text: str) -> bool:
    """Whether *text* can name a namespace.

    Source:
        RFC 1123, section 2.1, as Kubernetes reads it: a label in lower case.
    """
    return LABEL.fullmatch(text) is not None


def broker_address(namespace: str, own: Mapping[str, str] = NO_ADDRESSES) -> str:
    """Where events are published to, and routes listen to, the Broker ``default`` of *namespace*.

    The same whether or not that Broker exists as an object, and after it is created again.

    Args:
        namespace: Its name.
        own: Namespaces whose address is another one: an earlier version gave them the uid of
            their Broker, and the log holds it.
    """
    if namespace == DEFAULT_NAMESPACE:
        return ""
    return own.get(namespace, _MARK + namespace)


def lifecycle_address(namespace: str) -> str:
    """Where routes listen to the Broker ``lifecycle`` of *namespace*."""
    return _LIFECYCLE_MARK + namespace


def is_lifecycle(address: str) -> bool:
    """Whether routes at *address* listen to a Broker ``lifecycle``."""
    return address.startswith(_LIFECYCLE_MARK)


def path_in(namespace: str, path: str) -> str:
    """*path* of the API in *namespace*: itself in ``default``, else below its own prefix."""
    return path if namespace == DEFAULT_NAMESPACE else f"/namespaces/{namespace}{path}"
