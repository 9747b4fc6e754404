"""Parses a client's proposal into a spec: reports every fault at once, or returns it complete."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import msgspec

from distributary.resource.faults import Faults, member
from distributary.resource.rules import ResourceRules
from distributary.resource.schema import checked
from distributary.subscriptions.resource._config import check_timer, read_config
from distributary.subscriptions.resource._credentials import (
    CREDENTIAL_MEMBERS,
    ReadCredential,
    read_credential,
)
from distributary.subscriptions.resource._restore import restore
from distributary.subscriptions.resource._revisions import read_filters
from distributary.subscriptions.resource._schemas import SELECTION, members
from distributary.subscriptions.resource._secret_settings import (
    refuse_masks,
    sink_party,
    take_out,
)
from distributary.subscriptions.resource._settings import check_protocol, realize_target
from distributary.subscriptions.resource._shape import ApiSubscriptionSpec


def parse(body: object, rules: ResourceRules, *, secrets_kept: bool = False) -> ApiSubscriptionSpec:
    """Parse the spec in *body*, in any of the three revisions of the specification.

    Ignores an ``id``: create and replace interpret it.

    Args:
        body: Any JSON value.
        rules: To validate by.
        secrets_kept: *body* may replace a subscription, so its credential may omit its secrets, and
            secret settings may be masks. Only the store knows whether there are any to keep
            (``Credential.complete``, ``SecretValues.complete``).

    Raises:
        ResourceError: *body* is not a subscription; names every fault. No other exception is
            raised, whatever *body* is.
            out, whatever *body* is.

    Source:
        CloudEvents Subscriptions API 0.1-wip, 3.2.1 to 3.2.4.
    """
    faults = Faults()
    proposal = faults.object_at("$", body)
    faults.refuse()
    assert proposal is not None
    read = read_credential(faults, proposal, rules, kept=secrets_kept)
    realized = _realize(faults, proposal, rules, read)
    if not secrets_kept:
        refuse_masks(faults, proposal)
    faults.refuse()
    secrets = take_out(realized)
    try:
        text = msgspec.json.encode(realized)
    except UnicodeEncodeError:  # from a decoder less strict than ``decode_json``
        faults.add("$", "text", "a lone surrogate is no character")
        faults.refuse()
    spec = restore(text)
    credential = None
    if read is not None:
        origin, trusted_by = sink_party(realized)
        credential = dataclasses.replace(read.credential, origin=origin, trusted_by=trusted_by)
    return dataclasses.replace(spec, credential=credential, secrets=secrets)


def _realize(
    faults: Faults, body: Mapping[str, Any], rules: ResourceRules, read: ReadCredential | None
) -> dict[str, Any]:
    """The realized object, in the order of the specification; valid only without faults."""
    faults.unknown_members("$", body, members())
    realized: dict[str, Any] = {
        name: checked(faults, f"$.{name}", SELECTION[name], body[name])
        for name in SELECTION
        if name in body
    }
    if "config" in body:
        realized["config"] = read_config(faults, "$.config", body["config"], rules)
    realized["filters"] = read_filters(faults, body, rules.check_filters)
    realized |= _target(faults, body, rules, read)
    check_timer(faults, realized)
    _check_headers(faults, body, realized["protocolsettings"])
    return realized


def _target(
    faults: Faults, body: Mapping[str, Any], rules: ResourceRules, read: ReadCredential | None
) -> dict[str, Any]:
    protocol: str | None = None
    if "protocol" in body:
        protocol = check_protocol(faults, "$.protocol", body["protocol"], rules)
    else:
        faults.add("$.protocol", "missing", "a subscription names its delivery protocol")
    sink, settings = realize_target(faults, "$", body, protocol, rules)
    credential = {} if read is None else {"sinkCredential": read.realized}
    return {"sink": sink, **credential, "protocol": protocol, "protocolsettings": settings}


def _check_headers(faults: Faults, body: Mapping[str, Any], settings: object) -> None:
    """Note a custom header that the credential writes: a sink reads one."""
    if not isinstance(settings, dict) or not isinstance(settings.get("headers"), dict):
        return
    if not any(name in body for name in CREDENTIAL_MEMBERS):
        return
    for name in settings["headers"]:
        if name.lower() == "authorization":
            where = member("$.protocolsettings.headers", name)
            faults.add(where, "conflict", "the credential of the sink writes this header")
