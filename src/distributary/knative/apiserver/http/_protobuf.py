"""Decodes bodies in Kubernetes' protobuf, sent by kubectl from 1.32 for kinds of the core group.

``kubectl create configmap`` and a few others send nothing else, but accept responses in JSON.
Supported are the kinds that clients create with typed commands, with every field that a client may
set. Other kinds and fields are refused, not dropped; such clients can send JSON.

Source:
    Kubernetes API concepts, "Kubernetes Protobuf encoding"; field numbers: ``generated.proto`` of
    ``meta/v1``, ``core/v1``, ``authorization/v1``.
"""

import base64
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from distributary.knative.apiserver.machinery import Object, StatusError

PROTOBUF: Final = "application/vnd.kubernetes.protobuf"

_MAGIC: Final = b"k8s\x00"
_VARINT_BYTES_MAX: Final = 10
"""Longest varint of 64 bits, bytes."""

Read = Callable[[Any], Any]
"""Converts a wire value (a number or bytes) to JSON."""


class _Field(NamedTuple):
    """A field of a message.

    Attributes:
        name: In JSON; empty: set by the server, ignored in requests.
        read: Converts its value.
        many: ``list``, ``map`` or empty.
    """

    name: str
    read: Read
    many: str = ""


_Fields = Mapping[int, _Field]


def read_protobuf(body: bytes) -> Object:
    """The object in *body*.

    Raises:
        StatusError: ``BadRequest``: not this encoding. ``UnsupportedMediaType``: a kind or a field
            that is accepted only in JSON.
    """
    if not body.startswith(_MAGIC):
        raise _malformed()
    envelope = _message(_ENVELOPE)(body[len(_MAGIC) :])
    kind = envelope.get("type", {})
    fields = _KINDS.get((kind.get("apiVersion"), kind.get("kind")))
    if fields is None:
        raise StatusError("UnsupportedMediaType", f"send this kind as JSON, not as {PROTOBUF}")
    found: Object = {**kind, **_message(fields)(envelope.get("raw", b""))}
    return found


def _message(fields: _Fields) -> Read:
    """A reader of messages with *fields*; empty values mean the same as absent ones."""

    def read(encoded: Any) -> Object:
        found: Object = {}
        for number, value in _wire(encoded):
            field = fields.get(number)
            if field is None:
                raise StatusError(
                    "UnsupportedMediaType", f"send this field as JSON, not as {PROTOBUF}"
                )
            if not field.name:
                continue
            if field.many == "map":
                entry = _message({1: _Field("key", _text), 2: _Field("value", field.read)})(value)
                found.setdefault(field.name, {})[entry.get("key", "")] = entry.get("value", "")
            elif field.many:
                found.setdefault(field.name, []).append(field.read(value))
            elif (shown := field.read(value)) not in ("", 0, {}, None):
                found[field.name] = shown
        return found

    return read


def _wire(encoded: Any) -> Iterator[tuple[int, int | bytes]]:
    """Numbers and values of the fields in *encoded*, in order."""
    if not isinstance(encoded, bytes):
        raise _malformed()
    position = 0
    while position < len(encoded):
        tag, position = _varint(encoded, position)
        number, wire_type = tag >> 3, tag & 7
        if wire_type == 0:
            value, position = _varint(encoded, position)
            yield number, value
        elif wire_type == 2:
            length, position = _varint(encoded, position)
            end = position + length
            if end > len(encoded):
                raise _malformed()
            yield number, encoded[position:end]
            position = end
        else:  # these messages have no other wire types
            raise _malformed()


def _varint(encoded: bytes, position: int) -> tuple[int, int]:
    value = 0
    for shift, byte in enumerate(encoded[position : position + _VARINT_BYTES_MAX]):
        value |= (byte & 0x7F) << (7 * shift)
        if byte < 0x80:
            return value, position + shift + 1
    raise _malformed()


def _text(value: Any) -> str:
    try:
        return str(_bytes(value), "utf-8")
    except UnicodeDecodeError as error:
        raise _malformed() from error


def _base64(value: Any) -> str:
    return base64.b64encode(_bytes(value)).decode()


def _bytes(value: Any) -> bytes:
    if not isinstance(value, bytes):
        raise _malformed()
    return value


def _number(value: Any) -> int:
    if not isinstance(value, int):
        raise _malformed()
    return value - (1 << 64) if value >= 1 << 63 else value


def _flag(value: Any) -> bool:
    return _number(value) != 0


def _int_or_string(value: Any) -> int | str | None:
    found = _message({1: _Field("type", _number), 2: _Field("int", _number), 3: _string("text")})(
        value
    )
    shown: int | str | None = found.get("text") if found.get("type") else found.get("int")
    return shown


def _malformed() -> StatusError:
    return StatusError("BadRequest", f"the body of the request is not {PROTOBUF}")


def _string(name: str, many: str = "") -> _Field:
    return _Field(name, _text, many)


_OURS: Final = _Field("", bytes)

_TYPE: Final = _message({1: _string("apiVersion"), 2: _string("kind")})
_ENVELOPE: Final[_Fields] = {
    1: _Field("type", _TYPE),
    2: _Field("raw", _bytes),
    3: _string("encoding"),
    4: _string("media"),
}

_OWNER: Final = _message(
    {
        1: _string("kind"),
        3: _string("name"),
        4: _string("uid"),
        5: _string("apiVersion"),
        6: _Field("controller", _flag),
        7: _Field("blockOwnerDeletion", _flag),
    }
)
_METADATA: Final = _Field(
    "metadata",
    _message(
        {
            1: _string("name"),
            2: _string("generateName"),
            3: _string("namespace"),
            5: _string("uid"),
            6: _string("resourceVersion"),
            11: _string("labels", "map"),
            12: _string("annotations", "map"),
            13: _Field("ownerReferences", _OWNER, "list"),
            14: _string("finalizers", "list"),
            # selfLink, generation, times of creation and deletion, grace period, managedFields
            **dict.fromkeys((4, 7, 8, 9, 10, 17), _OURS),
        }
    ),
)
_PORT: Final = _message(
    {
        1: _string("name"),
        2: _string("protocol"),
        3: _Field("port", _number),
        4: _Field("targetPort", _int_or_string),
        5: _Field("nodePort", _number),
        6: _string("appProtocol"),
    }
)
_SERVICE_SPEC: Final = _message(
    {
        1: _Field("ports", _PORT, "list"),
        2: _string("selector", "map"),
        3: _string("clusterIP"),
        4: _string("type"),
        5: _string("externalIPs", "list"),
        7: _string("sessionAffinity"),
        8: _string("loadBalancerIP"),
        9: _string("loadBalancerSourceRanges", "list"),
        10: _string("externalName"),
        11: _string("externalTrafficPolicy"),
        12: _Field("healthCheckNodePort", _number),
        13: _Field("publishNotReadyAddresses", _flag),
        17: _string("ipFamilyPolicy"),
        18: _string("clusterIPs", "list"),
        19: _string("ipFamilies", "list"),
        20: _Field("allocateLoadBalancerNodePorts", _flag),
        21: _string("loadBalancerClass"),
        22: _string("internalTrafficPolicy"),
        23: _string("trafficDistribution"),
    }
)
_DELETE: Final[_Fields] = {
    1: _Field("gracePeriodSeconds", _number),
    2: _Field("preconditions", _message({1: _string("uid"), 2: _string("resourceVersion")})),
    3: _Field("orphanDependents", _flag),
    4: _string("propagationPolicy"),
    5: _string("dryRun", "list"),
}
_ACCESS_SPEC: Final = _message(
    {
        1: _Field(
            "resourceAttributes",
            _message(
                {
                    1: _string("namespace"),
                    2: _string("verb"),
                    3: _string("group"),
                    4: _string("version"),
                    5: _string("resource"),
                    6: _string("subresource"),
                    7: _string("name"),
                }
            ),
        ),
        2: _Field("nonResourceAttributes", _message({1: _string("path"), 2: _string("verb")})),
    }
)
_KINDS: Final[dict[tuple[Any, Any], _Fields]] = {
    ("v1", "ConfigMap"): {
        1: _METADATA,
        2: _string("data", "map"),
        3: _Field("binaryData", _base64, "map"),
        4: _Field("immutable", _flag),
    },
    ("v1", "Secret"): {
        1: _METADATA,
        2: _Field("data", _base64, "map"),
        3: _string("type"),
        4: _string("stringData", "map"),
        5: _Field("immutable", _flag),
    },
    ("v1", "Namespace"): {
        1: _METADATA,
        2: _Field("spec", _message({1: _string("finalizers", "list")})),
        3: _OURS,
    },
    ("v1", "Service"): {1: _METADATA, 2: _Field("spec", _SERVICE_SPEC), 3: _OURS},
    ("v1", "DeleteOptions"): _DELETE,
    ("authorization.k8s.io/v1", "SelfSubjectAccessReview"): {
        1: _METADATA,
        2: _Field("spec", _ACCESS_SPEC),
        3: _OURS,
    },
    ("authorization.k8s.io/v1", "SelfSubjectRulesReview"): {
        1: _METADATA,
        2: _Field("spec", _message({1: _string("namespace")})),
        3: _OURS,
    },
}
