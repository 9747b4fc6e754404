"""Every way of a partition to the resources passes the shipped contract suite."""

import itertools

import pytest

from distributary.core.database import sqlite_url
from distributary.core.deliver import Destination
from distributary.core.engine import RouteTarget
from distributary.core.flow import RouteRecord
from distributary.partitions._targets import DirectoryTargets
from distributary.resource import SinkRule
from distributary.subscriptions import resource as api_subscription
from distributary.subscriptions.service import rules
from distributary.subscriptions.store.store import Store
from distributary.subscriptions.store.stored import Delete, Put
from distributary.testing import check_resources
from kit.simulation.ports import SimulatedTargets, TargetsView


class StoredResources:
    """Those of the Subscriptions API, in their store."""

    def __init__(self, url):
        self._url = url
        self._store = Store(self._url)
        self._readers = []
        self._runs = itertools.count(1)

    def look(self):
        reader = DirectoryTargets(self._url)
        self._readers.append(reader)
        return reader, reader

    def put(self, route, uri, *, types=()):
        body = {"sink": uri, "protocol": "HTTP", "types": list(types)}
        if not types:
            del body["types"]
        spec = api_subscription.parse(body, rules(SinkRule(local_allowed=True)))
        self._store.apply([Put(route, spec, route)], 5)

    def delete(self, route):
        self._store.apply([Delete(route)], 5)

    def ask(self, kind, route):
        self._store.demand(kind, route, f"run-{next(self._runs)}", 5)

    def halt(self, route):
        self._store.pause(route, "anna", 5)

    def unhalt(self, route):
        self._store.resume(route, "anna", 6)

    def append(self):
        self._store.mark_appended(self._readers[0].newest_seq())

    def close(self):
        for reader in self._readers:
            reader.close()
        self._store.close()


class SimulatedResources:
    """Those of the simulation."""

    def __init__(self):
        self._targets = SimulatedTargets()
        self._types = {}
        self._revisions = itertools.count(1)

    def look(self):
        return TargetsView(self._targets), self._targets

    def _change(self, op, route, revision, types=()):
        seq = self._targets.last_seq() + 1
        change = RouteRecord(seq=seq, op=op, uid=route, revision=revision, types=types)
        self._targets.changes.append(change)

    def put(self, route, uri, *, types=()):
        revision = next(self._revisions)
        if self._types.get(route) != types:
            self._types[route] = types
            self._change("put", route, revision, types)
        self._targets.put(route, RouteTarget(revision, Destination(uri), None))

    def delete(self, route):
        self._change("delete", route, next(self._revisions))
        self._targets.delete(route)

    def ask(self, kind, route):
        self._targets.ask(kind, route)

    def halt(self, route):
        self._targets.halt(route)

    def unhalt(self, route):
        self._targets.unhalt(route)

    def append(self):
        """They stand there at once."""

    def close(self):
        """Nothing is held."""


@pytest.fixture(params=["simulated", "stored"])
def made(request, tmp_path):
    """A store in which nobody has written."""
    simulated = request.param == "simulated"
    resources = (
        SimulatedResources() if simulated else StoredResources(sqlite_url(tmp_path / "state.db"))
    )
    yield resources
    resources.close()


@pytest.mark.parametrize("check", check_resources.CHECKS, ids=lambda check: check.__name__)
def test_passes_the_contract(check, made):
    """What the owners count on."""
    check(made)


class Hasty(SimulatedResources):
    """Changes what the owner goes by while it reads."""

    def look(self):
        targets, history = super().look()
        read = targets.read

        def hasty():
            take = read()
            if take is not None:
                take()
            return take

        targets.read = hasty
        return targets, history


class Forgetful(SimulatedResources):
    """Does not tell which sinks were left."""

    def look(self):
        targets, history = super().look()
        targets.changed_uris = list
        return targets, history


@pytest.mark.parametrize(
    ("wrong", "check"),
    [
        (Hasty, check_resources.check_reading_and_taking_in_are_apart),
        (Forgetful, check_resources.check_sinks_that_a_route_has_left_are_told_once),
    ],
)
def test_check_resources_finds_what_is_wrong(wrong, check):
    """The suite itself fails resources that break a promise."""
    with pytest.raises(AssertionError):
        check(wrong())
