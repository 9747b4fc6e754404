"""Validation of Services and ConfigMaps beyond their schema."""

import re
from collections.abc import Iterator
from typing import Any, Final

from distributary.knative.apiserver.machinery import Cause, Object
from distributary.knative.apiserver.machinery.names import bad_value, required
from distributary.knative.kinds._annotations import annotations_of
from distributary.knative.kinds._causes import of_fault
from distributary.knative.kinds._destinations import ANYWHERE, check_name
from distributary.knative.kinds._schemas_core import SERVICE_ADDRESS
from distributary.knative.kinds._shape_check import key
from distributary.resource import SINKS, sinks_in
from distributary.resource.faults import Faults
from distributary.resource.uri import check_http_sink

SINKS_MAX: Final = 32
"""Most sinks of a Secret: it is compared with each for each target."""

_HOST_AND_PORT: Final = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[^\[\]:/?#@]+):[0-9]{1,5}")
_KEY: Final = re.compile(r"[-._A-Za-z0-9]{1,253}")
_ADDRESS: Final = f"metadata.annotations[{SERVICE_ADDRESS}]"


def check_service(causes: list[Cause], obj: Object) -> None:
    """Add faults of a Service to *causes*: its addresses and ports."""
    spec = obj.get("spec") or {}
    name = spec.get("externalName")
    if spec.get("type") == "ExternalName" and not name:
        causes.append(required("spec.externalName", "a Service of type ExternalName has one"))
    if name:
        check_name(causes, "spec.externalName", name.removesuffix("."), subdomain=True)
    causes.extend(_port_causes(spec.get("ports") or []))
    address = annotations_of(obj).get(SERVICE_ADDRESS)
    if isinstance(address, str):
        _check_address(causes, address)


def check_config_map(causes: list[Cause], obj: Object) -> None:
    """Add faults of the keys of a ConfigMap to *causes*."""
    members = {name: obj.get(name) or {} for name in ("data", "binaryData")}
    for member, entries in members.items():
        for name in entries:
            if not _KEY.fullmatch(name) or name in {".", ".."}:
                why = "a key has 1 to 253 letters, digits, '-', '_' and '.'"
                causes.append(bad_value(key(member, name), name, why))
    twice = members["data"].keys() & members["binaryData"].keys()
    why = "the key is also in binaryData"
    causes.extend(bad_value(key("data", name), name, why) for name in sorted(twice))


def check_secret(causes: list[Cause], obj: Object) -> None:
    """Add faults of the keys and the sinks of a Secret to *causes*; no value is repeated."""
    for member in ("data", "stringData"):
        for name in obj.get(member) or {}:
            if not _KEY.fullmatch(name) or name in {".", ".."}:
                why = "a key has 1 to 253 letters, digits, '-', '_' and '.'"
                causes.append(bad_value(key(member, name), name, why))
    path = f"metadata.annotations[{SINKS}]"
    found = sinks_in(annotations_of(obj).get(SINKS))
    if len(found) > SINKS_MAX:
        causes.append(bad_value(path, str(len(found)), f"at most {SINKS_MAX} sinks"))
        return
    for sink in found:
        faults = Faults()
        check_http_sink(faults, path, sink, ANYWHERE)
        causes.extend(map(of_fault, faults.found))


def _check_address(causes: list[Cause], text: str) -> None:
    if not _HOST_AND_PORT.fullmatch(text):
        causes.append(bad_value(_ADDRESS, text, "must be host:port"))
        return
    faults = Faults()
    check_http_sink(faults, _ADDRESS, f"http://{text}/", ANYWHERE)
    causes.extend(map(of_fault, faults.found))


def _port_causes(ports: list[Any]) -> Iterator[Cause]:
    seen: set[tuple[str, Any]] = set()
    for n, port in enumerate(ports):
        if port is None:
            continue
        path, name = f"spec.ports[{n}]", port.get("name")
        if not name and len(ports) > 1:
            yield required(f"{path}.name", "each of several ports has a name")
        for member, value in (("name", name), ("port", _number(port))):
            if value and (member, value) in seen:
                yield Cause(f"{path}.{member}", "FieldValueDuplicate", "Duplicate value")
            seen.add((member, value))
        if name:
            found: list[Cause] = []
            check_name(found, f"{path}.name", name)
            yield from found


def _number(port: Object) -> tuple[int, str] | None:
    number: int | None = port.get("port")
    return None if number is None else (number, port.get("protocol") or "TCP")
