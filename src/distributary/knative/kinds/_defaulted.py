"""Defaulting: members that the server fills in before an object is checked and stored."""

import base64
from collections.abc import Callable
from typing import Any, Final

from distributary.knative.apiserver.machinery import Kind, Object
from distributary.knative.kinds._admit import BROKER_CLASS, OWN_CLASS
from distributary.knative.kinds._kinds import BROKER, CHANNEL, NAMESPACE, SECRET, SERVICE, TRIGGER
from distributary.knative.kinds._shape_check import known_part

BROKER_LABEL: Final = "eventing.knative.dev/broker"
"""Label of a Trigger: the name of its Broker, to select by."""

SUBSCRIBABLE: Final = "messaging.knative.dev/subscribable"
"""Annotation of a Channel: the version of the contract between it and its Subscriptions."""

DEFAULT_TEMPLATE: Final[Object] = {
    "apiVersion": "messaging.knative.dev/v1",
    "kind": "InMemoryChannel",
}
"""Default of ``spec.channelTemplate``, as in Knative. Clients read it without checking that it
exists; it has no effect here."""

LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
"""Annotation by which ``kubectl apply`` keeps the whole object as it was sent."""

NAMESPACE_LABEL: Final = "kubernetes.io/metadata.name"
"""Label of a Namespace: its own name, to select by."""


def defaulted(kind: Kind, new: Object, old: Object | None) -> Object:
    """*new* with defaults, ready to be checked and stored.

    Unknown members and nulls are removed (``unknown_fields`` lists the former). ``spec.delivery``
    is unchanged.

    Args:
        kind: Of the object.
        new: As a client sent or patched it, with its metadata; may contain any JSON.
        old: The current object; None: it is being created.

    Returns:
        A new object, which may share parts with *new* and *old*. Idempotent.
    """
    obj = known_part(kind, new)
    fill = _FILLS.get(kind.resource)
    return obj if fill is None else fill(obj, old)


def _broker(obj: Object, _old: Object | None) -> Object:
    annotations = _member(_member(obj, "metadata"), "annotations")
    if annotations is not None and not annotations.get(BROKER_CLASS):
        return _with_metadata(obj, "annotations", {**annotations, BROKER_CLASS: OWN_CLASS})
    return obj


def _trigger(obj: Object, old: Object | None) -> Object:
    metadata, spec = _member(obj, "metadata"), _member(obj, "spec") or {}
    if spec:
        namespace = (metadata or {}).get("namespace")
        spec = _with_subscriber_placed(_with_broker_named(spec), namespace, old)
        # The default filter passes everything, as in Knative.
        obj = {**obj, "spec": spec if "filter" in spec else {**spec, "filter": {}}}
    broker = spec.get("broker")
    labels = _member(metadata, "labels")
    if not broker or not isinstance(broker, str) or labels is None:
        return obj
    return _with_metadata(obj, "labels", {**labels, BROKER_LABEL: broker})


def _with_broker_named(spec: Object) -> Object:
    """Fill in ``broker`` from ``brokerRef``."""
    name = (_member(spec, "brokerRef") or {}).get("name")
    return spec if not name or spec.get("broker") else {**spec, "broker": name}


def _with_subscriber_placed(spec: Object, namespace: Any, old: Object | None) -> Object:
    """Fill in the Trigger's namespace in a reference to the subscriber that has none.

    A server-side apply that removes the reference leaves the namespace that was filled in here,
    which the manager does not own: remove that too.
    """
    subscriber = _member(spec, "subscriber") or {}
    ref = _member(subscriber, "ref")
    filled_in = {"namespace": namespace}
    stood = _member(_member(_member(old, "spec"), "subscriber"), "ref") or {}
    if ref == filled_in and stood != ref and filled_in.items() <= stood.items():
        return {
            **spec,
            "subscriber": {name: subscriber[name] for name in subscriber if name != "ref"},
        }
    if not ref or ref.get("namespace") or not isinstance(namespace, str):
        return spec
    return {**spec, "subscriber": {**subscriber, "ref": {**ref, "namespace": namespace}}}


def _secret(obj: Object, _old: Object | None) -> Object:
    """Merge ``stringData`` into ``data``; drop the copy of the values by ``kubectl apply``."""
    annotations = _member(_member(obj, "metadata"), "annotations") or {}
    if LAST_APPLIED in annotations:
        kept = {name: text for name, text in annotations.items() if name != LAST_APPLIED}
        obj = _with_metadata(obj, "annotations", kept)
    obj = {"type": "Opaque", **obj}
    texts, data = _member(obj, "stringData"), _member(obj, "data")
    if texts is None or data is None or not all(isinstance(one, str) for one in texts.values()):
        return obj  # admission refuses it
    if "stringData" not in obj:
        return obj
    try:
        coded = {name: base64.b64encode(text.encode()).decode() for name, text in texts.items()}
    except UnicodeEncodeError:  # refused where it is written as JSON
        return obj
    obj = {name: value for name, value in obj.items() if name != "stringData"}
    return {**obj, "data": {**data, **coded}}


def _channel(obj: Object, old: Object | None) -> Object:
    """Add defaults; ``spec.subscribers`` belongs to the server and keeps its old value."""
    annotations = _member(_member(obj, "metadata"), "annotations")
    if annotations is not None:
        obj = _with_metadata(obj, "annotations", {SUBSCRIBABLE: "v1", **annotations})
    spec = _member(obj, "spec")
    if spec is None:
        return obj
    own = {name: value for name, value in spec.items() if name != "subscribers"}
    own.setdefault("channelTemplate", DEFAULT_TEMPLATE)
    kept = (_member(old, "spec") or {}).get("subscribers")
    if kept is not None:
        own["subscribers"] = known_part(CHANNEL, {"spec": {"subscribers": kept}})["spec"][
            "subscribers"
        ]
    return {**obj, "spec": own}


def _namespace(obj: Object, _old: Object | None) -> Object:
    status = _member(obj, "status")
    if status is not None and "phase" not in status:
        obj = {**obj, "status": {**status, "phase": "Active"}}
    metadata = _member(obj, "metadata") or {}
    labels = _member(metadata, "labels")
    name = metadata.get("name")
    if labels is None or not isinstance(name, str):
        return obj
    return _with_metadata(obj, "labels", {**labels, NAMESPACE_LABEL: name})


def _service(obj: Object, _old: Object | None) -> Object:
    spec = _member(obj, "spec")
    if spec is None:
        return obj
    filled = {"type": "ClusterIP", **spec}
    ports = spec.get("ports")
    if isinstance(ports, list):
        filled["ports"] = [_port(port) if isinstance(port, dict) else port for port in ports]
    return {**obj, "spec": filled}


def _port(port: Object) -> Object:
    number = port.get("port")
    target = {"targetPort": number} if type(number) is int else {}
    return {"protocol": "TCP", **target, **port}


def _member(obj: Any, name: str) -> Object | None:
    """The object at *name*; empty if absent; None: *obj* or the member is no object."""
    if not isinstance(obj, dict):
        return None
    value = obj.get(name)
    return {} if value is None else value if isinstance(value, dict) else None


def _with_metadata(obj: Object, name: str, value: Object) -> Object:
    return {**obj, "metadata": {**(obj.get("metadata") or {}), name: value}}


_FILLS: Final[dict[str, Callable[[Object, Object | None], Object]]] = {
    BROKER.resource: _broker,
    TRIGGER.resource: _trigger,
    CHANNEL.resource: _channel,
    NAMESPACE.resource: _namespace,
    SECRET.resource: _secret,
    SERVICE.resource: _service,
}
