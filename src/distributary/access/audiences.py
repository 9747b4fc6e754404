"""Audiences of Brokers and Channels: a token for one counts there, and nowhere else. Pure.

Called by ``tokens``, of tokens that are shown, and by ``knative``, which shows the audiences in
``status.address``.
"""

import re
from collections.abc import Iterable
from typing import Final

from distributary.access import spelling
from distributary.access.identity import Grant, Identity, Permission, Verb

_KINDS: Final = {
    "brokers": "eventing.knative.dev/broker",
    "channels": "messaging.knative.dev/channel",
}
_PLURALS: Final = {kind: plural for plural, kind in _KINDS.items()}
_AUDIENCE: Final = re.compile(
    rf"({'|'.join(map(re.escape, _PLURALS))})/"
    rf"({spelling.NAMESPACE})/({spelling.TARGET.partition('/')[2]})"
)


def audience_of(target: str) -> str:
    """The audience of tokens for *target*, such as ``brokers/shop/default``.

    Source:
        knative/eventing 1.15, ``pkg/auth/audience.go``: group, kind, namespace and name, in lower
        case.
    """
    plural, _, rest = target.partition("/")
    return f"{_KINDS[plural]}/{rest}".lower()


def target_of(audience: str) -> str | None:
    """The Broker or Channel whose audience *audience* is; None: it is that of none."""
    found = _AUDIENCE.fullmatch(audience)
    if found is None:
        return None
    kind, namespace, name = found.groups()
    return f"{_PLURALS[kind]}/{namespace}/{name}"


def narrowed(identity: Identity, targets: Iterable[str]) -> tuple[Grant, ...]:
    """What *identity* may do at *targets* alone: to send events, where its grants allow it."""
    grants: list[Grant] = []
    for target in dict.fromkeys(targets):
        plural, namespace, name = target.split("/")
        permission = Permission(Verb.PUBLISH, namespace, f"{plural}/{name}")
        if identity.may(permission):
            only = (permission.name,)
            grants.append(Grant(may=(Verb.PUBLISH,), namespaces=(namespace,), names=only))
    return tuple(grants)
