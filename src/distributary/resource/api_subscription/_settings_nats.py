"""``protocolsettings`` of NATS.

Source:
    Subscriptions API 3.2.2.5; decision 27: ``jetstream`` is ours to add.
"""

from collections.abc import Mapping
from typing import Any, Final

from distributary.resource._broker_settings import NatsSettings
from distributary.resource._faults import Faults
from distributary.resource._places import check_nats_subject
from distributary.resource._uri import SinkUri

NAMES: Final = ("subject", "jetstream")


def realize(
    faults: Faults, path: str, written: Mapping[str, Any], _sink: SinkUri | None
) -> dict[str, Any]:
    """See ``_protocols.ProtocolSettings``."""
    realized: dict[str, Any] = {"subject": written.get("subject")}
    if "subject" in written:
        check_nats_subject(faults, f"{path}.subject", written["subject"])
    else:
        faults.add(f"{path}.subject", "missing", "the subject to publish to is required")
    if "jetstream" in written:
        realized["jetstream"] = written["jetstream"]
        if not isinstance(written["jetstream"], bool):
            faults.wrong_type(f"{path}.jetstream", "a boolean", written["jetstream"])
    return realized


def restore(realized: Mapping[str, Any]) -> NatsSettings:
    """See ``_protocols.ProtocolSettings``."""
    return NatsSettings(subject=realized["subject"], jetstream=realized.get("jetstream"))
