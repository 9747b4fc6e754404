"""Checks that statuses, routes and log agree with the specs of Knative's objects.

``status_faults`` compares the statuses of objects with those that follow directly from the
existence of the objects they refer to. ``stored_faults`` compares the store and the log of a
stopped server. Both return sentences; none means no fault.

Supports the objects of the ``resource_kills`` scenario: Services by name, Triggers for one type,
Subscriptions of one Channel, dead letter sinks on Brokers and Channels only.

Callers: ``resource_kills``. Hides: tables, partitions, and the lookup of routes in them.
"""

import contextlib
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from distributary.core.flow import Logged, RecordKind, RouteRecord, decode_route
from distributary.core.route import RouteTable
from distributary.datadir import DataDir
from distributary.knative.apiserver.machinery import Key, Object
from distributary.knative.kinds import BROKER, CHANNEL, KINDS, SUBSCRIPTION, TRIGGER
from distributary.routes.settings import RouteSettings, decode_settings
from kit.check_routes import read_logs
from kit.knative_client import condition

__all__ = ["Objects", "status_faults", "stored_faults"]

_RESOURCES: Final = {(kind.api_version, kind.kind): kind.resource for kind in KINDS}
_ADDRESSED: Final = (BROKER.resource, CHANNEL.resource)
_ROUTED: Final = (TRIGGER.resource, SUBSCRIPTION.resource)

Objects = Mapping[Key, Object]
"""All existing objects."""


# -- statuses ------------------------------------------------------------------------------------


def status_faults(objects: Objects) -> list[str]:
    """Differences between statuses and what follows from the objects."""
    faults: list[str] = []
    for key, content in objects.items():
        if key.resource in (*_ADDRESSED, *_ROUTED):
            said, wanted = _said(content), _wanted(objects, key, content)
            if said != wanted:
                faults.append(f"{_name(key)} says {said}, not {wanted}")
    return faults


class _Said(NamedTuple):
    """The part of a status that follows from the objects."""

    generation: int
    ready: bool
    subscriber: str = ""
    reply: str = ""


def _said(content: Object) -> _Said:
    status = content.get("status", {})
    # Only a Subscription's stand under ``physicalSubscription``.
    uris = status.get("physicalSubscription", status)
    return _Said(
        status.get("observedGeneration", 0),
        condition(content, "Ready").get("status") == "True",
        _path_of(uris.get("subscriberUri", "")),
        _path_of(uris.get("replyUri", "")),
    )


def _wanted(objects: Objects, key: Key, content: Object) -> _Said:
    generation, spec = content["metadata"]["generation"], content["spec"]
    if key.resource in _ADDRESSED:
        return _Said(generation, _source_ready(objects, key))
    subscriber = _resolved(objects, key, spec.get("subscriber"))
    reply = _resolved(objects, key, spec.get("reply"))
    ready = _source_ready(objects, _source(key, spec)) and None not in {subscriber, reply}
    return _Said(generation, ready, subscriber or "", reply or "")


def _source(key: Key, spec: Object) -> Key:
    """The Broker or Channel of a Trigger or Subscription."""
    if key.resource == TRIGGER.resource:
        return Key(BROKER.resource, key.namespace, spec["broker"])
    return Key(CHANNEL.resource, key.namespace, spec["channel"]["name"])


def _source_ready(objects: Objects, key: Key) -> bool:
    content = objects.get(key)
    if content is None:
        return False
    delivery = (content.get("spec") or {}).get("delivery") or {}
    return _resolved(objects, key, delivery.get("deadLetterSink")) is not None


def _resolved(objects: Objects, key: Key, destination: Object | None) -> str | None:
    """Path of a destination, with its host where it is a Service; empty: there is none.

    None: what it names does not exist.
    """
    if destination is None:
        return ""
    path: str = destination.get("uri", "/")
    ref = destination.get("ref")
    if ref is None:
        return _path_of(path)
    resource = _RESOURCES[ref["apiVersion"], ref["kind"]]
    found = Key(resource, ref.get("namespace", key.namespace), ref["name"])
    if found not in objects:
        return None
    if resource in _ADDRESSED:
        return f"/{resource.partition('.')[0]}/{found.namespace}/{found.name}"
    return f"{found.name}.{found.namespace}.svc{path}"


def _path_of(uri: str) -> str:
    """What distinguishes places on loopback: the path; of a Service its name too."""
    host, _, path = uri.removeprefix("http://").partition("/")
    return f"/{path}" if host.startswith("127.0.0.1") else uri.removeprefix("http://")


def _name(key: Key) -> str:
    return f"{key.resource.partition('.')[0]} {key.namespace}/{key.name}"


# -- store and log -------------------------------------------------------------------------------


class _Target(NamedTuple):
    """A live row of ``route_target``."""

    revision: int
    address: str
    settings: RouteSettings


class _State(NamedTuple):
    """The contents of the store."""

    objects: dict[Key, Object]
    addresses: dict[str, str]
    targets: dict[str, _Target]
    pending: list[int]


def stored_faults(paths: DataDir) -> list[str]:
    """Where the store and the log of a server that has stopped differ from one another.

    Raises:
        ValueError: The log is damaged, or retention has cut it.
    """
    state = _read_state(paths)
    faults = [f"route change {seq} never reached the log" for seq in state.pending]
    faults += _address_faults(state)
    tables = [_table(logged) for logged in read_logs(paths.log)]
    orders = [order for order, _ in tables]
    if any(order != orders[0] for order in orders):
        faults.append(f"partitions hold other changes: {[len(order) for order in orders]}")
    for number, (_, table) in enumerate(tables):
        found = {record.uid: record for record in table.records()}
        faults += [f"partition {number}: {fault}" for fault in _route_faults(state, found)]
    return faults


def _read_state(paths: DataDir) -> _State:
    store = sqlite3.connect(f"file:{paths.state_db}?mode=ro", uri=True)
    with contextlib.closing(store):
        objects = {
            Key(*row[:3]): msgspec.json.decode(row[3])
            for row in store.execute("SELECT resource, namespace, name, content_json FROM object")
        }
        targets = {
            uid: _Target(revision, address, decode_settings(settings))
            for uid, revision, address, settings in store.execute(
                "SELECT uid, revision, address, settings_json FROM route_target"
                " WHERE state = 'live'"
            )
        }
        addresses = dict(store.execute("SELECT path, uid FROM address WHERE open"))
        pending = store.execute("SELECT seq FROM route_change WHERE NOT appended").fetchall()
    return _State(objects, addresses, targets, [seq for (seq,) in pending])


def _address_faults(state: _State) -> Iterator[str]:
    wanted = {
        _address_path(key): _own_address(key, content)
        for key, content in state.objects.items()
        if key.resource in _ADDRESSED
    }
    for path in wanted.keys() | state.addresses.keys():
        if wanted.get(path) != state.addresses.get(path):
            yield f"{path} is the address {state.addresses.get(path)!r}, not {wanted.get(path)!r}"


def _address_path(key: Key) -> str:
    return f"{key.resource.partition('.')[0]}/{key.namespace}/{key.name}"


def _own_address(key: Key, content: Object) -> str:
    uid: str = content["metadata"]["uid"]
    if (key.resource, key.name) == (BROKER.resource, "default"):
        return "" if key.namespace == "default" else f"@{key.namespace}"
    return uid


def _table(records: Iterable[Logged]) -> tuple[list[bytes], RouteTable]:
    """The route records of a partition in their order, and the routes that they come to."""
    order, table = [], RouteTable()
    for logged in records:
        if logged.kind == RecordKind.ROUTE:
            record = decode_route(logged.body)
            if table.apply(record):  # one that was rolled forward twice counts once
                order.append(logged.body)
    return order, table


def _route_faults(state: _State, found: Mapping[str, RouteRecord]) -> Iterator[str]:
    """Routes of a partition, rows of the store, and objects: the same, each way."""
    routed = {
        content["metadata"]["uid"]: (key, content)
        for key, content in state.objects.items()
        if key.resource in _ROUTED
    }
    for uid in found.keys() - state.targets.keys():
        yield f"the route {uid} is in the log, and not in the store"
    for uid in state.targets.keys() - found.keys():
        yield f"the route {uid} is in the store, and not in the log"
    for uid in state.targets.keys() - routed.keys():
        yield f"the route {uid} is of no object: {state.targets[uid].settings.name}"
    for uid, (key, content) in routed.items():
        record, target = found.get(uid), state.targets.get(uid)
        if record is None or target is None:
            if condition(content, "Ready").get("status") == "True":
                yield f"{_name(key)} says that it is ready, and has no route"
            continue
        for what, is_, wanted in _compared(state, key, content, record, target):
            if is_ != wanted:
                yield f"{_name(key)}: {what} of its route is {is_!r}, not {wanted!r}"


def _compared(
    state: _State, key: Key, content: Object, record: RouteRecord, target: _Target
) -> Iterator[tuple[str, Any, Any]]:
    """What of a route must be the same as what."""
    spec = content["spec"]
    yield "revision", record.revision, target.revision
    yield "address", record.address, target.address
    source = _source(key, spec)
    if source in state.objects:
        yield "address", record.address, _own_address(source, state.objects[source])
    if key.resource == TRIGGER.resource:
        wanted = ({"exact": {"type": spec["filter"]["attributes"]["type"]}},)
        yield "matching", record.filters, wanted
    else:
        yield "matching", record.filters, ()
    sink = _resolved(state.objects, key, spec.get("subscriber"))
    reply = _resolved(state.objects, key, spec.get("reply"))
    yield "usable", target.settings.unusable is None, None not in {sink, reply}
    if sink:
        yield "sink", _path_of(target.settings.sink.uri), sink
    if reply and target.settings.reply is not None and key.resource == SUBSCRIPTION.resource:
        yield "reply", _path_of(target.settings.reply.uri), reply
