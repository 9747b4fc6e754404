"""References into other namespaces: who writes one learns whether it leads somewhere, and where.

Called by ``_writes``. What an object that is stored already refers to is not asked again, so that
whoever changes another part of it needs no more than ``write``. Another place of the object or
another path there is another destination.
"""

from distributary.access import Gate, Identity, Permission, Verb
from distributary.knative import kinds as knative
from distributary.knative.apiserver.machinery import Kind, Object, StatusError
from distributary.knative.apiserver.objects import Permit
from distributary.knative.kinds.specs import KReference, references_abroad

_REFERRING = frozenset(
    kind.resource
    for kind in (knative.BROKER, knative.CHANNEL, knative.SUBSCRIPTION, knative.TRIGGER)
)
_TARGETS = {kind.kind: kind.plural for kind in (knative.BROKER, knative.CHANNEL)}


def permit_of(sender: Identity, gate: Gate) -> Permit:
    """Asks *gate* which references into other namespaces *sender* may write.

    One needs ``read`` there; to a Broker or Channel it suffices that a policy there lets deliveries
    of the referring object's namespace in.
    """

    def permit(kind: Kind, new: Object, old: Object | None) -> None:
        if kind.resource not in _REFERRING:
            return
        before = {} if old is None else references_abroad(old)
        for place, destination in references_abroad(new).items():
            ref = destination.ref
            assert ref is not None
            permission = Permission(Verb.READ, ref.namespace)
            known = before.get(place) == destination or sender.may(permission)
            if not known and not gate.delivers(new["metadata"]["namespace"], _target(ref)):
                named = f'{kind.resource} "{new["metadata"].get("name", "")}"'
                message = f"{named} is forbidden: {place}: {sender.name} may not {permission}"
                raise StatusError("Forbidden", message)

    return permit


def _target(ref: KReference) -> str:
    """What *ref* names, as a target of policies; those of other kinds have none."""
    return f"{_TARGETS.get(ref.kind, ref.kind)}/{ref.namespace}/{ref.name}"
