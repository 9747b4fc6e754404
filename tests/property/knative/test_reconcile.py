"""Random changes and crashes: in the end all stands as a fresh look wants it, never too soon."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from distributary.core.clock import SystemClock
from distributary.core.errors import LogUnavailableError, StoreError
from distributary.knative.apiserver.machinery import Key, Kind
from distributary.knative.apiserver.objects import ObjectChange, Stored, own_address, path_of
from distributary.knative.kinds import (
    BROKER,
    CHANNEL,
    EVENT_POLICY,
    SERVICE,
    SUBSCRIPTION,
    TRIGGER,
)
from distributary.knative.reconcile import (
    Reconciler,
    Site,
    _announcer,
    _moves,
    _reconciler,
    _work_queue,
)
from distributary.knative.reconcile._resolve import ObjectView
from distributary.knative.reconcile._routes import plan_route
from distributary.resource import SinkRule
from distributary.routes.batch import ActiveRoute, standing
from distributary.routes.changes import AppliedRoute, PutRoute

SITE = Site("http://me.example", None, SinkRule(local_allowed=True))
EVERYTHING = Key("namespaces", "", "ns")


@pytest.fixture(autouse=True, scope="module")
def _soon():
    """Nobody waits long for another try."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_work_queue, "RETRY_S_MIN", 0.001)
        patch.setattr(_work_queue, "RETRY_S_MAX", 0.002)
        patch.setattr(_reconciler, "DECIDED_LOOK_S", 0.001)
        patch.setattr(_moves, "MOVES_MAX", 1)
        patch.setattr(_announcer, "NEAR_S", 0.001)
        yield


class Disk:
    """What outlives a crash: objects, the store's routes, the log, and what the receiver read."""

    def __init__(self):
        self.objects: dict[Key, Stored] = {}
        self.routes: dict[str, ActiveRoute] = {}
        self.log: dict[str, ActiveRoute] = {}
        self.opened: set[str] = set()
        self.known: set[str] = set()
        self.version = 0
        self.uid = 0
        self.too_soon: list[Key] = []
        # Policies by the number of the change that told them, as the version of each by its name.
        self.policies: list[dict[str, int]] = [{}]
        self.decided = 0
        # Policies that stood when a Broker or Channel was made, by its uid.
        self.made_under: dict[str, dict[str, int]] = {}

    def policies_now(self) -> dict[str, int]:
        """The version of each policy, as its subject has it."""
        found = (each for each in self.objects.values() if each.key.resource == POLICIES)
        return {name_of(each.key): version_in(each.content["spec"]) for each in found}

    def unheard(self, uid: str, key: Key) -> bool:
        """Whether a route of the Broker or Channel *key*, which is *uid*, listens elsewhere."""
        stands = key in self.objects and self.objects[key].uid == uid
        routes = [self.log.get(each.uid) for each in self.objects.values() if asks(each, key)]
        return stands and any(found and found.address != uid for found in routes)

    def protected(self, wanted: Mapping[str, int]) -> bool:
        """Whether every receiver decides by these policies, or newer ones; deleted ones aside."""
        now, decided = self.policies_now(), self.policies[self.decided]
        return all(decided.get(name, 0) >= wanted[name] for name in wanted.keys() & now.keys())


class NoOrders:
    """No annotation asks for anything."""

    def known(self) -> Mapping[str, Mapping[str, str]]:
        return {}

    def obey(self, *_order: object) -> None:
        return None

    def halted(self, _uid: str) -> None:
        return None

    def changed(self, after: int) -> tuple[int, Mapping[str, None]]:
        return after, {}


class Process:
    """Fakes of the reconciler's neighbours: each call may fail, or be the last thing that happens.

    Args:
        disk: What is there.
        steps: After so many steps nothing happens any more; None: it lives on.
        faults: Whether a step fails, one after the other; then none does.
    """

    def __init__(self, disk: Disk, steps: int | None = None, faults: Any = ()):
        self.disk = disk
        self.steps = steps
        self.faults = iter(faults)
        self.dead = asyncio.Event()
        self.told: list[Any] = []
        self.asked = 0
        self.own_addresses: dict[str, str] = {}
        self.reconciler = Reconciler(
            self, self, self, SITE, SystemClock(), gatekeeper=self, steering=NoOrders()
        )

    async def step(self, error: Exception | None = None):
        """Lets others run, fails, or never returns."""
        await asyncio.sleep(0)
        if self.steps is not None:
            self.steps -= 1
            if self.steps < 0:
                self.dead.set()
                await asyncio.Event().wait()
        if error is not None and next(self.faults, False):
            raise error

    # The objects.

    def get(self, key: Key):
        return self.disk.objects.get(key)

    def list(self, kind: Kind, _namespace: str = ""):
        found = [each for key, each in self.disk.objects.items() if key.resource == kind.resource]
        return found, self.disk.version

    # The gate, of which every receiver looks for news when somebody has asked a few times.

    required = True

    def change_policies(self, policies):
        """Numbers go on over a crash."""
        if next(self.faults, False):
            raise StoreError("full")
        told = {policy.name: int(policy.subjects[0].removeprefix("key:")) for policy in policies}
        self.disk.policies.append(told)
        return len(self.disk.policies) - 1

    def decided(self):
        self.asked += 1
        if self.asked % 3 == 0:
            self.disk.decided = len(self.disk.policies) - 1
        return self.disk.decided

    @property
    def closed(self):
        """Paths that are not open yet."""
        kinds = (BROKER.resource, CHANNEL.resource)
        found = (each for each in self.disk.objects.values() if each.key.resource in kinds)
        return {path_of(each.key) for each in found if each.uid not in self.disk.opened}

    async def open_addresses(self, uids):
        """Open those that exist, in one step."""
        await self.step(StoreError("full"))
        for uid, key in uids.items():
            if not self.disk.protected(self.disk.made_under[uid]) or self.disk.unheard(uid, key):
                self.disk.too_soon.append(key)
        self.disk.opened |= uids.keys()
        await self.step()

    def on_change(self, told):
        self.told.append(told)

    async def edit_all(self, edits, write):
        await self.step(StoreError("full"))
        assert write.by_server
        results = []
        for key, change in edits:
            before = self.disk.objects.get(key)
            if before is not None:
                after = change(before.content)
                self.check_not_too_soon(before, after)
                if after is not before.content:
                    self.write(key, after)
            results.append(self.disk.objects.get(key))
        await self.step()
        return results

    def write(self, key: Key, content):
        """Store an object; None: delete it."""
        disk = self.disk
        disk.version += 1
        before = disk.objects.get(key)
        if content is None:
            del disk.objects[key]
            change = ObjectChange("DELETED", before, before)
        else:
            stored = Stored(key, content["metadata"]["uid"], disk.version, content, b"")
            disk.objects[key] = stored
            change = ObjectChange("ADDED" if before is None else "MODIFIED", stored, before)
        for told in self.told:
            told(change)

    def check_not_too_soon(self, before: Stored, after):
        """Ready is said of what stands in the log, at an address that the receiver knows."""
        if not is_ready(after):
            return
        if before.key.resource == POLICIES:
            if after is before.content:
                return  # a client may have changed its spec: it will be looked at
            version = version_in(after["spec"])
            if not self.disk.protected({name_of(before.key): version}):
                self.disk.too_soon.append(before.key)
            return
        addressed = before.key.resource in (BROKER.resource, CHANNEL.resource)
        if before.uid not in (self.disk.known if addressed else self.disk.log):
            # Kept for the end: the reconciler takes an error here for one of its neighbours.
            self.disk.too_soon.append(before.key)

    # The routes.

    async def routes(self):
        await self.step(StoreError("full"))
        if self.disk.log != self.disk.routes:  # what a crash left: rolled forward first
            await self.step(LogUnavailableError("away"))
            self.disk.log = dict(self.disk.routes)
        return dict(self.disk.routes)

    async def submit(self, change):
        await self.step(LogUnavailableError("away"))
        before = self.disk.routes.get(change.uid)
        revision = before.revision if before else 1
        if isinstance(change, PutRoute):
            if before is None or standing(change, revision) != before:
                revision += 1
                self.disk.routes[change.uid] = standing(change, revision)
        else:
            self.disk.routes.pop(change.uid, None)
        await self.step(LogUnavailableError("half"))
        self.disk.log = dict(self.disk.routes)
        await self.step()
        return AppliedRoute(1, "replaced", change.uid, revision, b"")

    # The receiver of events.

    async def look_again(self):
        await self.step(LogUnavailableError("away"))
        self.disk.known = {
            each.uid for each in self.disk.objects.values() if each.uid in self.disk.opened
        }
        await self.step()

    async def run(self, changes):
        """Live through *changes*, a few turns of the loop apart; then until settled, or dead."""
        await self.reconciler.start()
        for key, content, pause in changes:
            if self.dead.is_set():
                break
            self.client_writes(key, content)
            for _ in range(pause):
                await asyncio.sleep(0)
        while not self.dead.is_set() and not await self.reconciler.settled(EVERYTHING, 0.01):
            pass
        await self.reconciler.close()

    def client_writes(self, key: Key, spec):
        """Apply a spec, or delete (None)."""
        before = self.disk.objects.get(key)
        if spec is None:
            if before is not None:
                self.write(key, None)
            if key.resource == POLICIES:  # one that has the name later is another
                for wanted in self.disk.made_under.values():
                    wanted.pop(name_of(key), None)
            return
        if before is None:
            self.disk.uid += 1
            metadata = {"uid": f"u{self.disk.uid}", "generation": 1}
        else:
            metadata = dict(before.content["metadata"])
            metadata["generation"] += 1
        if key.resource == POLICIES:
            spec = {"from": [{"sub": f"key:{self.disk.version + 1}"}]}
        elif before is None:
            self.disk.made_under[metadata["uid"]] = self.disk.policies_now()
        metadata |= {"name": key.name, "namespace": key.namespace}
        content = {"kind": KINDS[key.resource].kind, "metadata": metadata, "spec": spec}
        if before is not None and "status" in before.content:
            content["status"] = before.content["status"]
        self.write(key, content)


KINDS = {
    kind.resource: kind for kind in (BROKER, TRIGGER, CHANNEL, SUBSCRIPTION, SERVICE, EVENT_POLICY)
}
POLICIES = EVENT_POLICY.resource


def asks(stored: Stored, key: Key) -> bool:
    """Whether it is a Trigger of the Broker *key*, or a Subscription of this Channel."""
    if stored.key.resource == TRIGGER.resource:
        return key.resource == BROKER.resource and stored.content["spec"]["broker"] == key.name
    if stored.key.resource == SUBSCRIPTION.resource:
        asked = stored.content["spec"]["channel"]["name"]
        return key.resource == CHANNEL.resource and asked == key.name
    return False


def name_of(key: Key) -> str:
    """The name of a policy, as the gate has it."""
    return f"{key.namespace}/{key.name}"


def version_in(spec: Any) -> int:
    """The version that a policy's subject tells."""
    return int(spec["from"][0]["sub"].removeprefix("key:"))


def is_ready(content):
    """Its status says that it is ready."""
    conditions = (content.get("status") or {}).get("conditions", [])
    return any((each["type"], each["status"]) == ("Ready", "True") for each in conditions)


def at(kind: Kind, name: str):
    """A destination by reference."""
    return {"ref": {"apiVersion": kind.api_version, "kind": kind.kind, "name": name}}


names = st.sampled_from(("a", "a", "a", "b"))
destinations = st.one_of(
    st.just({"uri": "http://127.0.0.1:9/"}),
    st.builds(at, st.sampled_from((SERVICE, BROKER, CHANNEL)), names),
)
deliveries = st.one_of(
    st.just({}),
    st.just({"delivery": {"retry": 2}}),
    st.builds(lambda sink: {"delivery": {"deadLetterSink": sink}}, destinations),
)
specs = {
    BROKER: deliveries,
    CHANNEL: deliveries,
    SERVICE: st.just({"ports": [{"port": 80}]}),
    EVENT_POLICY: st.just({}),
    TRIGGER: st.builds(
        lambda broker, sink, delivery: {"broker": broker, "subscriber": sink, **delivery},
        names,
        destinations,
        deliveries,
    ),
    SUBSCRIPTION: st.builds(
        lambda channel, sink, reply, delivery: {
            "channel": at(CHANNEL, channel)["ref"],
            "subscriber": sink,
            **({} if reply is None else {"reply": reply}),
            **delivery,
        },
        names,
        destinations,
        st.none() | destinations,
        deliveries,
    ),
}
changes = st.sampled_from(list(specs)).flatmap(
    lambda kind: st.tuples(
        st.builds(Key, st.just(kind.resource), st.just("ns"), names),
        st.one_of(specs[kind], specs[kind], st.none()),
        st.integers(0, 12),
    )
)
lives = st.lists(
    st.tuples(
        st.lists(changes, min_size=1, max_size=10),
        st.integers(0, 60),
        st.lists(st.booleans(), max_size=12),
    ),
    max_size=4,
)


def immutable(changes_, disk):
    """What a client may not change is left as it was, as admission sees to."""
    for key, spec, pause in changes_:
        before = disk.objects.get(key)
        kept = {TRIGGER.resource: "broker", SUBSCRIPTION.resource: "channel"}.get(key.resource)
        if spec is not None and before is not None and kept is not None:
            yield key, spec | {kept: before.content["spec"][kept]}, pause
        else:
            yield key, spec, pause


def in_ns(kind: Kind, name: str) -> Key:
    """The key of an object of the one namespace."""
    return Key(kind.resource, "ns", name)


SINK = {"uri": "http://127.0.0.1:9/"}
TRIGGERS = [(in_ns(TRIGGER, name), {"broker": "a", "subscriber": SINK}, 0) for name in "ab"]
RECREATED = [(in_ns(BROKER, "a"), None, 12), (in_ns(BROKER, "a"), {}, 0)]


@pytest.mark.slow
@example([([(in_ns(BROKER, "a"), {}, 0), *TRIGGERS], None, [])], RECREATED)
@given(lives, st.lists(changes, max_size=6))
@settings(max_examples=200, deadline=None)
def test_routes_and_statuses_follow_whatever_happens(lives, last):
    """Crashes between any two steps, and failures of any of them."""
    disk = Disk()

    async def live_on():
        for some, steps, faults in lives:
            await Process(disk, steps, faults).run(immutable(some, disk))
        await Process(disk).run(immutable(last, disk))

    asyncio.run(live_on())
    check(disk)
    before = disk.version, dict(disk.routes)
    asyncio.run(Process(disk).run([]))
    assert (disk.version, disk.routes) == before


def check(disk: Disk):
    """What stands is what a fresh look wants."""
    assert disk.too_soon == []
    assert disk.policies[-1] == disk.policies_now()
    for stored in disk.objects.values():
        if stored.key.resource == POLICIES:
            assert is_ready(stored.content)
        elif stored.key.resource in (BROKER.resource, CHANNEL.resource):
            assert stored.uid in disk.opened & disk.known
    assert disk.log == disk.routes
    wanted = [
        stored
        for stored in disk.objects.values()
        if stored.key.resource in (TRIGGER.resource, SUBSCRIPTION.resource)
    ]
    assert set(disk.routes) <= {stored.uid for stored in wanted}
    for stored in wanted:
        view = ObjectView(disk.objects.get, disk.known.__contains__, SITE)
        found = disk.routes.get(stored.uid)
        plan = plan_route(view, stored, found)
        assert (plan.route is None) == (found is None) or source_of(disk, stored) is None
        if plan.route is not None:
            assert standing(plan.route, found.revision) == found
        status = stored.content["status"]
        assert status["observedGeneration"] == stored.content["metadata"]["generation"]
        statuses = {each["type"]: each["status"] for each in status["conditions"]}
        for type_, finding in plan.findings.items():
            assert statuses[type_] == finding.status
        assert is_ready(stored.content) == resolves(disk, stored)
        source = source_of(disk, stored)
        if found is not None and source is not None:
            assert found.address == own_address(source)


def source_of(disk: Disk, stored: Stored):
    """Its Broker or Channel."""
    spec = stored.content["spec"]
    if stored.key.resource == TRIGGER.resource:
        return disk.objects.get(Key(BROKER.resource, "ns", spec["broker"]))
    return disk.objects.get(Key(CHANNEL.resource, "ns", spec["channel"]["name"]))


def resolves(disk: Disk, stored: Stored) -> bool:
    """By the text alone: all that it names is there."""
    source = source_of(disk, stored)
    if source is None:
        return False
    spec, above = stored.content["spec"], source.content["spec"]
    named = [spec["subscriber"], spec.get("reply")]
    named += [each.get("delivery", {}).get("deadLetterSink") for each in (spec, above)]
    kinds = {kind.kind: kind for kind in KINDS.values()}
    return all(
        "ref" not in each
        or Key(kinds[each["ref"]["kind"]].resource, "ns", each["ref"]["name"]) in disk.objects
        for each in named
        if each is not None
    )
