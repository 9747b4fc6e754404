"""The checker of Knative's objects: it finds what is wrong, and nothing where nothing is."""

import contextlib
import sqlite3
from pathlib import Path
from typing import Any

import msgspec
import pytest

from distributary.core.database import sqlite_url
from distributary.core.flow import RecordKind, RouteRecord, encode_route
from distributary.core.log import Appender, open_folder
from distributary.core.policy import DeliveryPolicy
from distributary.datadir import DataDir
from distributary.knative.apiserver.machinery import Key, Object
from distributary.knative.apiserver.machinery import Kind as ObjectKind
from distributary.knative.kinds import BROKER, CHANNEL, SERVICE, SUBSCRIPTION, TRIGGER
from distributary.routes.settings import RouteEndpoint, RouteSettings, encode_settings
from distributary.subscriptions.store.store import Store
from distributary.testing.virtual import VirtualClock
from kit.resource_checker import status_faults, stored_faults

FILTER = {"exact": {"type": "one"}}
SINK = "http://127.0.0.1:9/t"

ANOTHER_TARGET = """
    INSERT INTO route_target
    SELECT 'uid-2', 1, '', '', settings_json, 'live', 2 FROM route_target
"""


def _object(kind: ObjectKind, name: str, spec: Object, **status: Any) -> tuple[Key, Object]:
    """An object of ``default`` that is ready, where *status* does not say otherwise."""
    ready = {"type": "Ready", "status": status.pop("ready", "True")}
    metadata = {"name": name, "uid": f"uid-{name}", "generation": 2}
    status = {"observedGeneration": 2, "conditions": [ready], **status}
    content = {"kind": kind.kind, "metadata": metadata, "spec": spec, "status": status}
    return Key(kind.resource, "default", name), content


def _service_ref(path: str) -> Object:
    return {"ref": {"apiVersion": "v1", "kind": "Service", "name": "s"}, "uri": path}


def _world() -> dict[Key, Object]:
    trigger = {
        "broker": "b",
        "filter": {"attributes": {"type": "one"}},
        "subscriber": {"uri": SINK},
    }
    channel = {"apiVersion": CHANNEL.api_version, "kind": "Channel", "name": "c"}
    uris = {
        "subscriberUri": "http://s.default.svc/u",
        "replyUri": "http://127.0.0.1:8/brokers/default/b",
    }
    subscription = {
        "channel": channel,
        "subscriber": _service_ref("/u"),
        "reply": {"ref": {"apiVersion": BROKER.api_version, "kind": "Broker", "name": "b"}},
    }
    return dict(
        [
            _object(BROKER, "b", {"delivery": {"deadLetterSink": _service_ref("/")}}),
            _object(CHANNEL, "c", {}),
            _object(SERVICE, "s", {}),
            _object(TRIGGER, "t", trigger, subscriberUri=SINK),
            _object(SUBSCRIPTION, "u", subscription, physicalSubscription=uris),
        ]
    )


def _key(kind: ObjectKind, name: str) -> Key:
    return Key(kind.resource, "default", name)


def test_statuses_that_follow_from_the_objects_have_no_fault() -> None:
    """Services, Brokers and plain URIs lead where the statuses say."""
    assert status_faults(_world()) == []


@pytest.mark.parametrize(
    ("gone", "faults"),
    [
        (_key(SERVICE, "s"), 3),  # of the Broker, so of its Trigger too, and of the Subscription
        (_key(BROKER, "b"), 2),  # of the Trigger; the Subscription replies to it
        (_key(CHANNEL, "c"), 1),
    ],
)
def test_what_is_ready_without_what_it_names_is_found(gone: Key, faults: int) -> None:
    """Each object that depends on what is gone is named."""
    world = _world()
    del world[gone]
    assert len(status_faults(world)) == faults


def test_a_status_of_an_older_generation_is_found() -> None:
    """``observedGeneration`` counts, whatever the conditions say."""
    world = _world()
    world[_key(TRIGGER, "t")]["metadata"]["generation"] = 3
    assert len(status_faults(world)) == 1


def test_what_could_be_ready_and_is_not_is_found() -> None:
    """Both directions are exact."""
    world = _world()
    world[_key(CHANNEL, "c")]["status"]["conditions"][0]["status"] = "False"
    assert len(status_faults(world)) == 1


# -- store and log -------------------------------------------------------------------------------


@pytest.fixture
def paths(tmp_path: Path) -> DataDir:
    """A stopped server's store and log of two partitions: one Broker, one Trigger, its route."""
    paths = DataDir(tmp_path)
    Store(sqlite_url(paths.state_db)).close()  # makes the tables
    settings = RouteSettings(
        name="Trigger default/t",
        sink=RouteEndpoint(SINK),
        policy=DeliveryPolicy(retry=1, backoff_delay_s=1.0, timeout_s=1.0),
    )
    world = _world()
    with contextlib.closing(sqlite3.connect(paths.state_db)) as store:
        for key in (_key(BROKER, "b"), _key(TRIGGER, "t"), _key(SERVICE, "s")):
            row = (*key, "uid-" + key.name, 1, 1, 1, msgspec.json.encode(world[key]))
            store.execute("INSERT INTO object VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
        store.execute("INSERT INTO address VALUES ('brokers/default/b', 'uid-b', 1)")
        target = ("uid-t", 1, "uid-b", "m", encode_settings(settings).decode(), "live", 1)
        store.execute("INSERT INTO route_target VALUES (?, ?, ?, ?, ?, ?, ?)", target)
        store.execute("INSERT INTO route_change VALUES (1, 'uid-t', 1, 'put', '{}', 1)")
        store.commit()
    open_folder(paths.log, 2)
    for partition in range(2):
        _append(paths, partition, _route())
    return paths


def _route(**members: Any) -> RouteRecord:
    named: dict[str, Any] = {"uid": "uid-t", "revision": 1, "address": "uid-b"}
    named["filters"] = (FILTER,)
    return RouteRecord(seq=members.pop("seq", 1), op="put", **(named | members))


def _append(paths: DataDir, partition: int, record: RouteRecord) -> None:
    appender = Appender.open(paths.log, partition, clock=VirtualClock())
    appender.append([(RecordKind.ROUTE, encode_route(record))])
    appender.close()


def test_a_store_and_a_log_that_agree_have_no_fault(paths: DataDir) -> None:
    """Objects, addresses, targets, and the routes of both partitions."""
    assert stored_faults(paths) == []


@pytest.mark.parametrize(
    ("statement", "fault"),
    [
        ("DELETE FROM route_target", "in the log, and not in the store"),
        ("UPDATE route_target SET revision = 2", "revision of its route is 1, not 2"),
        ("UPDATE route_target SET address = 'x'", "address of its route is 'uid-b', not 'x'"),
        ("UPDATE route_target SET settings_json = replace(settings_json, '/t', '/x')", "sink"),
        ("UPDATE route_change SET appended = 0", "route change 1 never reached the log"),
        ("UPDATE address SET uid = 'x'", "brokers/default/b is the address 'x'"),
        ("DELETE FROM address", "brokers/default/b is the address None"),
        ("INSERT INTO address VALUES ('channels/default/c', 'x', 1)", "channels/default/c is"),
        ("DELETE FROM object WHERE name = 't'", "is of no object: Trigger default/t"),
        ("DELETE FROM object WHERE name = 'b'", "brokers/default/b is the address 'uid-b'"),
        (ANOTHER_TARGET, "the route uid-2 is in the store, and not in the log"),
    ],
)
def test_a_store_that_differs_from_the_log_is_found(
    paths: DataDir, statement: str, fault: str
) -> None:
    """Whatever differs is named."""
    with contextlib.closing(sqlite3.connect(paths.state_db)) as store:
        store.execute(statement)
        store.commit()
    assert fault in "\n".join(stored_faults(paths))


@pytest.mark.parametrize(
    ("members", "fault"),
    [
        ({"address": "uid-old"}, "address of its route is 'uid-old', not 'uid-b'"),
        ({"filters": ()}, "matching of its route is ()"),
        ({"uid": "uid-2"}, "the route uid-2 is in the log, and not in the store"),
    ],
)
def test_a_record_that_one_partition_alone_has_is_found(
    paths: DataDir, members: dict[str, Any], fault: str
) -> None:
    """A half-applied route is named, and so is the difference between the partitions."""
    _append(paths, 1, _route(seq=2, **members))
    faults = stored_faults(paths)
    assert "partitions hold other changes: [1, 2]" in faults
    assert any(each.startswith("partition 1: ") and fault in each for each in faults)


def test_a_trigger_that_is_ready_without_a_route_is_found(paths: DataDir) -> None:
    """A status that says more than the log."""
    with contextlib.closing(sqlite3.connect(paths.state_db)) as store:
        store.execute("DELETE FROM route_target")
        store.commit()
    gone = RouteRecord(seq=2, op="delete", uid="uid-t", revision=2)
    for partition in range(2):
        _append(paths, partition, gone)
    assert stored_faults(paths) == [
        f"partition {partition}: triggers default/t says that it is ready, and has no route"
        for partition in range(2)
    ]
