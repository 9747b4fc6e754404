"""EventPolicies: tells the gate about them, and writes their statuses."""

import asyncio
from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple

import msgspec
import structlog

from distributary.access import PolicyRecord, all_targets
from distributary.core.errors import ResourceError
from distributary.knative.apiserver.machinery import Key, Object
from distributary.knative.apiserver.objects import Objects, Stored
from distributary.knative.kinds import (
    BROKER,
    CHANNEL,
    EVENT_POLICY,
    POLICY_BYTES_MAX,
    Receivers,
    conditions,
    policy_of,
    selects,
    targets_of,
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

_DAMAGED: Final = Finding(
    "False", "NotUnderstood", "it cannot be read, so it protects its namespace and lets nobody in"
)

_PLURALS: Final = {BROKER.resource: "brokers", CHANNEL.resource: "channels"}


class _Asked(NamedTuple):
    """What the policies of a namespace depend on.

    Attributes:
        specs: Name, uid and spec of each.
        labels: Of the Brokers and Channels, where a policy selects some by their labels.
    """

    specs: list[tuple[str, str, object]]
    labels: dict[Key, Object]


class _Read(NamedTuple):
    """What was made of the policies of a namespace.

    Attributes:
        asked: Of what.
        records: The policies, in order of their names.
        by_target: Their names, by what they protect.
        unready: Why some protect their namespace and let nobody in, by name.
    """

    asked: _Asked
    records: tuple[PolicyRecord, ...]
    by_target: Mapping[str, tuple[str, ...]]
    unready: Mapping[str, Finding]

    @property
    def made(self) -> "_Made":
        """Spec and policy of those that can count, by uid."""
        pairs = zip(self.asked.specs, self.records, strict=True)
        return {
            uid: (spec, record)
            for (_, uid, spec), record in pairs
            if record.name not in self.unready
        }


_Made = Mapping[str, tuple[object, PolicyRecord]]

_NOTHING: Final = _Read(_Asked([], {}), (), {}, {})


class EventPolicies:
    """Keeps the gate's policies as the objects define them.

    Policies are read anew for a namespace in which one has changed, or a label that may count.

    Args:
        objects: The objects.
        gatekeeper: Decides by the policies.
    """

    def __init__(self, objects: Objects, gatekeeper: Gatekeeper) -> None:
        self._objects = objects
        self._gatekeeper = gatekeeper
        self._told: tuple[PolicyRecord, ...] | None = None
        # By namespace, the number of the change that told its policies, until it is decided by.
        self._undecided: dict[str, int] = {}
        self._waiting: dict[str, dict[Key, None]] = {}  # by namespace
        self._waits = asyncio.Event()
        self._seen: dict[str, int] = {}
        self._read: dict[str, _Read] = {}
        self._applied: dict[str, _Read] = {}
        self._unreadable: set[str] = set()
        self._large: set[str] = set()

    def tell(self) -> list[Key]:
        """Tell the gate at first, and if anything has changed. Idempotent.

        Returns:
            Objects whose statuses may have to change: Brokers and Channels with other policies,
            and policies that count otherwise.

        Raises:
            StoreError: It cannot be told now.
        """
        now = self._read = self._look()
        records = tuple(record for read in now.values() for record in read.records)
        number = None
        if records != self._told:
            number, self._told = self._gatekeeper.change_policies(records), records
        before, self._applied = self._applied, now
        touched: list[Key] = []
        for one in before | now:
            was, is_ = before.get(one, _NOTHING), now.get(one, _NOTHING)
            if was is not is_:
                touched += self._touched(one, was, is_)
                # That there are none, at first, opens nothing that somebody has closed.
                if number is not None and was.records != is_.records:
                    self._undecided[one] = number
        return touched

    def decided(self, namespace: str) -> bool:
        """Whether every receiver decides by the policies of *namespace* as last told.

        Those of another one are not waited for: they protect nothing here.
        """
        number = self._undecided.get(namespace)
        if number is not None and self._gatekeeper.decided() < number:
            return False
        self._undecided.pop(namespace, None)
        return True

    def waiting(self, keys: Collection[Key]) -> list[Key]:
        """Those of *keys* that are not decided by yet; ``decided_now`` returns them later."""
        found: list[Key] = []
        undecided = {one for one in {key.namespace for key in keys} if not self.decided(one)}
        for key in keys:
            if key.namespace in undecided:
                found.append(key)
                self._waiting.setdefault(key.namespace, {})[key] = None
                self._waits.set()
        return found

    async def decided_now(self) -> list[Key]:
        """Of what is held, what is decided by now, perhaps nothing; waits while nothing is held."""
        while not self._waiting:
            self._waits.clear()
            await self._waits.wait()
        decided = [one for one in self._waiting if self.decided(one)]
        return [key for one in decided for key in self._waiting.pop(one)]

    def has_told(self, stored: Stored) -> bool:
        """Whether the last ``tell`` saw the EventPolicy *stored* as it is now."""
        return self._seen.get(stored.uid) == stored.version

    def _touched(self, namespace: str, before: _Read, now: _Read) -> Iterable[Key]:
        """What has other policies in *namespace* than before, and policies that count otherwise."""
        named, was = now.by_target, before.by_target
        differ = {one for one in named.keys() | was.keys() if named.get(one) != was.get(one)}
        for kind in (BROKER, CHANNEL):
            plural = _PLURALS[kind.resource]
            if all_targets(plural, namespace) in differ:
                differ.remove(all_targets(plural, namespace))
                yield from (each.key for each in self._objects.list(kind, namespace)[0])
        yield from map(_key, differ)
        for name in now.unready.keys() ^ before.unready.keys():
            yield Key(EVENT_POLICY.resource, namespace, name.partition("/")[2])

    def applied(self, stored: Stored) -> tuple[Finding, Object]:
        """The condition of a Broker or Channel about its policies, and members of its status.

        Source:
            Knative Eventing 1.22, ``pkg/auth/event_policy.go``: reasons and members.
        """
        if not self._gatekeeper.required:
            return _OFF._replace(status="True"), {}
        read = self._applied.get(stored.key.namespace, _NOTHING)
        wide = all_targets(_PLURALS[stored.key.resource], stored.key.namespace)
        targets = (_target(stored.key), wide)
        names = sorted({name for one in targets for name in read.by_target.get(one, ())})
        unready = [name for name in names if name in read.unready]
        members: Object = {}
        if len(names) > len(unready):
            version = EVENT_POLICY.api_version
            ready = (name for name in names if name not in read.unready)
            refs = [{"apiVersion": version, "name": name.partition("/")[2]} for name in ready]
            members["policies"] = refs
        if unready:
            message = f"event policies {', '.join(unready)} are not ready"
            return Finding("False", "EventPoliciesNotReady", message, "Warning"), members
        return (HOLDS if names else _BY_GRANTS), members

    def _look(self) -> dict[str, _Read]:
        """The policies of each namespace that has any."""
        policies: dict[str, list[Stored]] = {}
        listed = self._objects.list(EVENT_POLICY)[0]
        self._seen = {stored.uid: stored.version for stored in listed}
        for stored in listed:
            policies.setdefault(stored.key.namespace, []).append(stored)
        return {namespace: self._of(namespace, found) for namespace, found in policies.items()}

    def _of(self, namespace: str, policies: list[Stored]) -> _Read:
        labels: dict[Key, Object] = {}
        if any(_may_select(each.content) for each in policies):
            for kind in (BROKER, CHANNEL):
                for each in self._objects.list(kind, namespace)[0]:
                    labels[each.key] = each.content["metadata"].get("labels") or {}
        specs = [(each.key.name, each.uid, each.content.get("spec")) for each in policies]
        asked, known = _Asked(specs, labels), self._read.get(namespace)
        if known is not None and known.asked == asked:
            return known
        receivers, unready = Receivers(labels), dict[str, Finding]()
        known = known or _NOTHING
        made = known.made
        records = tuple(self._record(each, receivers, unready, made) for each in policies)
        for name in unready.keys() - known.unready:
            _log.warning("policy-closes-its-namespace", policy=name, reason=unready[name].message)
        self._tell_size(namespace, sum(each.cost.spec_bytes for each in policies))
        return _Read(asked, records, _by_target(records), unready)

    def _tell_size(self, namespace: str, size: int) -> None:
        """Say once that policies are larger than new ones may be: an older version took them."""
        if size > POLICY_BYTES_MAX and namespace not in self._large:
            self._large.add(namespace)
            _log.warning(
                "policies-too-large", namespace=namespace, bytes=size, bytes_max=POLICY_BYTES_MAX
            )

    def _record(
        self, stored: Stored, receivers: Receivers, unready: dict[str, Finding], made: _Made
    ) -> PolicyRecord:
        """The policy *stored*; one that cannot count closes its namespace, and stops no other."""
        try:
            return _policy(stored, receivers, *made.get(stored.uid, (None, None)))
        except ResourceError as error:
            why = error.faults[0].message
            unready[_name(stored.key)] = Finding("False", "TooManySelected", why)
        except Exception:  # noqa: BLE001 - damage, or stricter rules; as in ``ReconcilePass``
            if stored.uid not in self._unreadable:
                self._unreadable.add(stored.uid)
                _log.exception("policy-not-understood", object=stored.key)
            unready[_name(stored.key)] = _DAMAGED
        return policy_of(stored.key, {}, receivers)

    def findings(self, stored: Stored) -> tuple[dict[str, Finding], Object]:
        """Conditions of the EventPolicy *stored*, which ``has_told``, and members of its status."""
        read, name = self._read[stored.key.namespace], _name(stored.key)
        (record,) = (each for each in read.records if each.name == name)
        resolved = read.unready.get(name, HOLDS)
        required = self._gatekeeper.required
        findings = {
            conditions.AUTHENTICATION_ENABLED: HOLDS if required else _OFF,
            conditions.SUBJECTS_RESOLVED: resolved,
        }
        return findings, {"from": list(record.subjects)}


def _policy(
    stored: Stored, receivers: Receivers, spec: object, made: PolicyRecord | None
) -> PolicyRecord:
    """The policy *stored*: the one that was *made* of the same *spec*, where it can be.

    So filters are checked once, and not whenever something else of their namespace changes.
    """
    key, content = stored.key, stored.content
    if made is None or content.get("spec") != spec:
        return policy_of(key, content, receivers)
    targets = targets_of(key, content, receivers) if selects(content) else made.targets
    return made if targets == made.targets else msgspec.structs.replace(made, targets=targets)


def _may_select(content: Object) -> bool:
    try:
        return selects(content)
    except Exception:  # noqa: BLE001 - damage: ``_record`` says so
        return False


def _name(key: Key) -> str:
    return f"{key.namespace}/{key.name}"


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
