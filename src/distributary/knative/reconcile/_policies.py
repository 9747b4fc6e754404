"""EventPolicies: tells the gate about them, and writes their statuses."""

from collections.abc import Iterable, Mapping
from typing import Final

import structlog

from distributary.access import PolicyRecord
from distributary.knative.apiserver.machinery import Key, Object
from distributary.knative.apiserver.objects import Objects, Stored
from distributary.knative.kinds import (
    BROKER,
    CHANNEL,
    EVENT_POLICY,
    conditions,
    policy_of,
)
from distributary.knative.reconcile._findings import HOLDS, Finding
from distributary.knative.reconcile._ports import Gatekeeper

_log = structlog.get_logger(__name__)

_OFF: Final = Finding(
    "False",
    "AuthenticationDisabled",
    "the server does not ask senders who they are (auth = off), so no policy counts",
)


_BY_GRANTS: Final = HOLDS._replace(
    reason="DefaultAuthorizationMode", message="whoever has a grant to publish may send"
)

_PLURALS: Final = {BROKER.resource: "brokers", CHANNEL.resource: "channels"}


class EventPolicies:
    """Keeps the gate's policies as the objects define them.

    Args:
        objects: The objects.
        gatekeeper: Decides by the policies.
    """

    def __init__(self, objects: Objects, gatekeeper: Gatekeeper) -> None:
        self._objects = objects
        self._gatekeeper = gatekeeper
        self._told: tuple[PolicyRecord, ...] = ()
        self._applied: Mapping[str, tuple[str, ...]] = {}
        self._unreadable: set[str] = set()
        self._unready: set[str] = set()

    def tell(self) -> list[Key]:
        """Tell the gate, if anything has changed. Idempotent.

        Returns:
            Brokers and Channels whose policies have changed.

        Raises:
            StoreError: It cannot be told now.
        """
        records = self._records()
        if records == self._told:
            return []
        self._gatekeeper.change_policies(records)
        self._told = records
        before, self._applied = self._applied, _by_target(records)
        targets = before.keys() | self._applied.keys()
        return [_key(one) for one in targets if before.get(one) != self._applied.get(one)]

    def applied(self, stored: Stored) -> tuple[Finding, Object]:
        """The condition of a Broker or Channel about its policies, and members of its status.

        Source:
            Knative Eventing 1.22, ``pkg/auth/event_policy.go``: reasons and members.
        """
        if not self._gatekeeper.required:
            return _OFF._replace(status="True"), {}
        names = self._applied.get(_target(stored.key), ())
        unready = [name for name in names if name in self._unready]
        members: Object = {}
        if len(names) > len(unready):
            version = EVENT_POLICY.api_version
            ready = (name for name in names if name not in self._unready)
            refs = [{"apiVersion": version, "name": name.partition("/")[2]} for name in ready]
            members["policies"] = refs
        if unready:
            message = f"event policies {', '.join(unready)} are not ready"
            return Finding("False", "EventPoliciesNotReady", message, "Warning"), members
        return (HOLDS if names else _BY_GRANTS), members

    def _records(self) -> tuple[PolicyRecord, ...]:
        policies = self._objects.list(EVENT_POLICY)[0]
        if not policies:
            return ()
        receivers: dict[str, dict[Key, Object]] = {}
        for kind in (BROKER, CHANNEL):
            for stored in self._objects.list(kind)[0]:
                labels = stored.content["metadata"].get("labels") or {}
                receivers.setdefault(stored.key.namespace, {})[stored.key] = labels
        return tuple(self._record(each, receivers.get(each.key.namespace, {})) for each in policies)

    def _record(self, stored: Stored, receivers: dict[Key, Object]) -> PolicyRecord:
        """The policy *stored*; one that cannot be read closes its namespace, and stops no other."""
        name = f"{stored.key.namespace}/{stored.key.name}"
        try:
            record = policy_of(stored.key, stored.content, receivers)
        except Exception:  # noqa: BLE001 - damage, or stricter rules; as in ``ReconcilePass``
            if stored.uid not in self._unreadable:
                self._unreadable.add(stored.uid)
                _log.exception("policy-not-understood", object=stored.key)
            self._unready.add(name)
            return policy_of(stored.key, {}, receivers)
        self._unready.discard(name)
        return record

    def findings(self, stored: Stored) -> tuple[dict[str, Finding], Object]:
        """Conditions of the EventPolicy *stored*, and further members of its status."""
        subjects = self._record(stored, {}).subjects
        required = self._gatekeeper.required
        findings = {
            conditions.AUTHENTICATION_ENABLED: HOLDS if required else _OFF,
            conditions.SUBJECTS_RESOLVED: HOLDS,
        }
        return findings, {"from": list(subjects)}


def _by_target(records: Iterable[PolicyRecord]) -> Mapping[str, tuple[str, ...]]:
    """Names of the policies of each target, in order."""
    found: dict[str, list[str]] = {}
    for record in sorted(records, key=lambda record: record.name):
        for target in record.targets:
            found.setdefault(target, []).append(record.name)
    return {target: tuple(names) for target, names in found.items()}


def _target(key: Key) -> str:
    return f"{_PLURALS[key.resource]}/{key.namespace}/{key.name}"


def _key(target: str) -> Key:
    plural, namespace, name = target.split("/")
    kind = BROKER if plural == _PLURALS[BROKER.resource] else CHANNEL
    return Key(kind.resource, namespace, name)
