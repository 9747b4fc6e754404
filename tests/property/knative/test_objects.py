"""Whatever is written, refused, or interrupted: the store is the model, watchers miss nothing."""

import asyncio
import itertools
import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distributary.core.database import sqlite_url
from distributary.core.errors import StoreError
from distributary.knative.apiserver.machinery import Key, StatusError
from distributary.knative.apiserver.objects import AddressBook, Objects, Write, own_address, path_of
from distributary.knative.kinds import BROKER, CONFIG_MAP, KINDS, TRIGGER
from distributary.testing.virtual import VirtualClock

WATCHED = (BROKER, TRIGGER, CONFIG_MAP)
KEPT_MAX = 12

kinds = st.sampled_from(WATCHED)
namespaces = st.sampled_from(["a", "b"])
names = st.sampled_from(["x", "y"])

writes = st.tuples(
    st.sampled_from(["create", "edit", "put", "delete", "status", "dry"]),
    kinds,
    namespaces,
    names,
    st.integers(0, 3),
)
steps = st.lists(
    # Writes of one list share batches.
    st.lists(writes, min_size=1, max_size=6)
    | st.tuples(st.just("watch"), kinds, st.none() | namespaces, st.integers(0, 10))
    | st.tuples(st.just("read"), st.integers(0, 3))
    | st.sampled_from(["store refuses", "store commits, then fails", "restart"]),
    max_size=20,
)


class _World:
    """The server, and what a plain dict says of it."""

    def __init__(self, url) -> None:
        self.url = url
        self.uids = (f"u{number}" for number in itertools.count())
        self.watchers: list[_Watcher] = []

    async def start(self) -> None:
        self.objects = Objects(
            self.url,
            kinds=KINDS,
            admit=lambda *_: None,
            default=lambda _kind, new, _old: new,
            clock=VirtualClock(),
            new_uid=lambda: next(self.uids),
            changes_kept_max=KEPT_MAX,
        )
        self.history: list = []
        self.objects.on_change(self.history.append)
        await self.objects.start()
        self.model = self._standing()
        self.oldest = self.objects.version - len(self.history)

    def _standing(self) -> dict[Key, dict]:
        return {
            stored.key: stored.content for kind in WATCHED for stored in self.objects.list(kind)[0]
        }

    async def write(self, way, kind, namespace, name, number):
        key = Key(kind.resource, namespace, name)
        spec = {"n": number}
        if way in ("create", "dry"):
            content = {"metadata": {"name": name}, "spec": spec}
            await self.objects.create(kind, namespace, content, Write(dry_run=way == "dry"))
        elif way == "edit":
            await self.objects.edit(key, lambda content: {**content, "spec": spec})
        elif way == "put":
            await self.objects.put(key, lambda content: {**(content or {}), "spec": spec})
        elif way == "status":
            edits = [(key, lambda content: {**content, "status": spec})] * 2
            await self.objects.edit_all(edits, Write(by_server=True))
        else:
            await self.objects.delete(key)

    async def write_all(self, asked) -> None:
        """All at once; what a dict makes of them, one after the other, is what must stand."""
        outcomes = await asyncio.gather(
            *(self.write(*each) for each in asked), return_exceptions=True
        )
        if any(isinstance(each, StoreError) for each in outcomes):
            return
        for (way, kind, namespace, name, number), outcome in zip(asked, outcomes, strict=True):
            key = Key(kind.resource, namespace, name)
            refused = isinstance(outcome, StatusError)
            assert refused or outcome is None
            if way in ("create", "dry"):
                assert refused == (key in self.model)
            elif way in ("edit", "delete"):
                assert refused == (key not in self.model)
            if refused or way == "dry":
                continue
            if way == "delete":
                del self.model[key]
            elif way == "status":
                if (key in self.model and kind.has_status) or key in self.model:
                    self.model[key] = {**self.model[key], "status": {"n": number}}
            else:
                self.model[key] = {**self.model.get(key, {}), "spec": {"n": number}}
        standing = self._standing()
        assert {key: _own(content) for key, content in standing.items()} == {
            key: _own(content) for key, content in self.model.items()
        }

    async def fail(self, way) -> None:
        """One write meets a store that fails; afterwards memory says what the store says."""
        rows = self.objects._rows
        write = rows.write

        def fail(*arguments):
            if way != "store refuses":
                write(*arguments)
            raise StoreError("disk")

        rows.write = fail
        with pytest.raises(StoreError):
            await self.objects.put(
                Key(TRIGGER.resource, "a", "x"),
                lambda content: {**(content or {}), "spec": {"failed": self.objects.version}},
            )
        rows.write = write
        before, version = len(self.history), self.objects.version
        await self.objects.put(
            Key(TRIGGER.resource, "a", "y"), lambda _: {"spec": {"n": -1 - version}}
        )
        if way != "store refuses":
            # Whoever watched must begin anew: what was missed came summed up.
            assert len(self.history) > before
            self.oldest = self.objects.version - 1
            self.history[:] = [
                change for change in self.history if change.stored.version > self.oldest
            ]
            for watcher in self.watchers:
                await watcher.expire()
            self.watchers.clear()
        self.model = self._standing()

    def watch(self, kind, namespace, back) -> None:
        version = max(0, self.objects.version - back)
        try:
            watch = self.objects.watch(kind, namespace, version)
        except StatusError as error:
            _check_expired(error)
            lost = [
                change
                for change in self.history[:-KEPT_MAX]
                if change.stored.version > version and change.stored.key.resource == kind.resource
            ]
            assert lost or version < self.oldest
            return
        self.watchers.append(_Watcher(self, kind, namespace, version, watch))


class _Watcher:
    def __init__(self, world, kind, namespace, version, watch) -> None:
        self.world, self.kind, self.namespace = world, kind, namespace
        self.version, self.watch = version, watch
        self.seen: list = []
        self.expired = False

    def _due(self) -> list:
        return [
            change
            for change in self.world.history
            if change.stored.version > self.version
            and change.stored.key.resource == self.kind.resource
            and self.namespace in (None, change.stored.key.namespace)
        ]

    async def read(self) -> None:
        """Everything that was not seen, in order; or Expired, if some of it is gone."""
        if self.expired:
            return
        try:
            while len(self.seen) < len(self._due()):
                found = await self.watch.changes(5)
                assert found
                self.seen += found
        except StatusError as error:
            _check_expired(error)
            self.expired = True
            kept = [
                change
                for change in self.world.history[-KEPT_MAX:]
                if change.stored.key.resource == self.kind.resource
            ]
            oldest = kept[0].stored.version if kept else self.world.objects.version + 1
            assert any(
                self.version < change.stored.version < oldest
                for change in self.world.history
                if change.stored.key.resource == self.kind.resource
            )
            return
        assert self.seen == self._due()
        last = self.seen[-1].stored.version if self.seen else self.version
        assert last <= self.watch.version <= self.world.objects.version

    async def expire(self) -> None:
        if not self.expired:
            with pytest.raises(StatusError, match="too old"):
                await self.watch.changes(0)


def _check_expired(error) -> None:
    assert error.reason == "Expired"


def _own(content):
    return {name: content.get(name) for name in ("spec", "status")}


async def _play(url, script) -> None:
    world = _World(url)
    await world.start()
    for step in script:
        if isinstance(step, list):
            await world.write_all(step)
        elif step == "restart":
            before = world._standing(), world.objects.version
            await world.objects.close()
            world.watchers.clear()
            await world.start()
            assert (world._standing(), world.objects.version) == before
        elif isinstance(step, str):
            await world.fail(step)
        elif step[0] == "watch":
            world.watch(*step[1:])
        elif world.watchers:
            await world.watchers[step[1] % len(world.watchers)].read()
    for watcher in world.watchers:
        await watcher.read()
    places, _ = world.objects.list(BROKER)
    await world.objects.open_addresses({each.uid: each.key for each in places})
    _check_whole(world)
    await world.objects.close()


def _check_whole(world) -> None:
    """Versions, JSON and addresses say what the contents say."""
    versions = [change.stored.version for change in world.history]
    assert versions == sorted(set(versions))
    addresses = {}
    for kind in KINDS:
        for stored in world.objects.list(kind)[0]:
            assert json.loads(stored.json) == stored.content
            assert stored.content["metadata"]["resourceVersion"] == str(stored.version)
            path = path_of(stored.key)
            if path is not None:
                addresses[path] = own_address(stored)
    book = AddressBook(world.url)
    found = book.read()
    assert {path: found[path] for path in found if not path.startswith("namespaces/")} == addresses
    book.close()


@given(steps)
@settings(max_examples=40, deadline=None)
@pytest.mark.slow
def test_the_store_is_a_dict_and_watchers_see_its_history(script):
    """Each write is made or refused as a dict would; every watcher sees each change once, in
    order, or is told that it was too slow.
    """  # noqa: D205 - one sentence
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(_play(sqlite_url(Path(folder) / "control.db"), script))
