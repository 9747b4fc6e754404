"""Resources that people write: their shape, their defaults and their validation. Pure.

Called by ``control`` (which stores them and makes routes of them), ``pipeline`` (which reads
where and how to deliver) and ``api`` (which renders them). Hides what the revisions of a
specification look like and how a fault is found and named. Knows no filter dialect, no clock
and no store: ``Rules`` brings in what is decided elsewhere.
"""

from distributary.resource import api_subscription, patterns
from distributary.resource._broker_settings import (
    BrokerSettings,
    HttpSettings,
    Scalar,
)
from distributary.resource._certificates import certificates_in
from distributary.resource._credential import (
    CREDENTIAL_TYPES,
    SECRET_MEMBERS,
    Credential,
    CredentialType,
)
from distributary.resource._faults import FAULTS_MAX, Faults, member, one_of
from distributary.resource._json import JSON_DEPTH_MAX, RESOURCE_BYTES_MAX, decode_json
from distributary.resource._origins import Origin, origin_of
from distributary.resource._own import NOWHERE, IsLocal, OwnAddresses, takes_events
from distributary.resource._ports import PORTS_DENIED
from distributary.resource._protocol import (
    Check,
    EventFormat,
    Flag,
    Protocol,
    Reading,
    Scheme,
    load,
    protocols,
    schemes,
)
from distributary.resource._reach import ErrorData, Reach, protocols_allowed
from distributary.resource._rules import FilterCheck, Rules
from distributary.resource._schema import Schema, closed, published, ref
from distributary.resource._shown import is_secret, shown_uri
from distributary.resource._sinks import (
    DENIED_NETWORKS,
    LOCAL_NETWORKS,
    METADATA_NETWORKS,
    OWN_EVENTS,
    OWN_LISTENER,
    PORT_DENIED,
    SinkRule,
)
from distributary.resource._uri import (
    URI_CHARS_MAX,
    SinkUri,
    broker_uri,
)
from distributary.resource.api_subscription import (
    ConfigSpec,
    DeadLetterSpec,
    DeliverySpec,
    SubscriptionSpec,
)
from distributary.resource.maps import bounded_map

__all__ = [
    "CREDENTIAL_TYPES",
    "DENIED_NETWORKS",
    "FAULTS_MAX",
    "JSON_DEPTH_MAX",
    "LOCAL_NETWORKS",
    "METADATA_NETWORKS",
    "NOWHERE",
    "OWN_EVENTS",
    "OWN_LISTENER",
    "PORTS_DENIED",
    "PORT_DENIED",
    "RESOURCE_BYTES_MAX",
    "SECRET_MEMBERS",
    "URI_CHARS_MAX",
    "BrokerSettings",
    "Check",
    "ConfigSpec",
    "Credential",
    "CredentialType",
    "DeadLetterSpec",
    "DeliverySpec",
    "ErrorData",
    "EventFormat",
    "Faults",
    "FilterCheck",
    "Flag",
    "HttpSettings",
    "IsLocal",
    "Origin",
    "OwnAddresses",
    "Protocol",
    "Reach",
    "Reading",
    "Rules",
    "Scalar",
    "Schema",
    "Scheme",
    "SinkRule",
    "SinkUri",
    "SubscriptionSpec",
    "api_subscription",
    "bounded_map",
    "broker_uri",
    "certificates_in",
    "closed",
    "decode_json",
    "is_secret",
    "load",
    "member",
    "one_of",
    "origin_of",
    "patterns",
    "protocols",
    "protocols_allowed",
    "published",
    "ref",
    "schemes",
    "shown_uri",
    "takes_events",
]
