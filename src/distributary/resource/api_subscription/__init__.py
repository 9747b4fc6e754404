"""``ApiSubscription``: a subscription of the CloudEvents Subscriptions API.

Shape (``_shape``), defaults (``_defaults``), validation (``_parse`` and what it calls). The
three revisions of the specification that are accepted on input are known to ``_revisions``
alone; behind it there is only the newest. Each delivery protocol has a module of settings.
"""

from distributary.resource.api_subscription._certificates import CA_CERTS_CHARS_MAX
from distributary.resource.api_subscription._config import (
    CONFIG_KEYS,
    EVENTS_COUNT_MAX,
    INTERVAL_S_MAX,
    INTERVAL_S_MIN,
    TIMER_TYPE,
    timer_source,
    timer_type,
)
from distributary.resource.api_subscription._credentials import (
    CREDENTIAL_MEMBERS,
    CREDENTIAL_SHAPE,
    IDENTIFIER_BYTES_MAX,
    SECRET_BYTES_MAX,
    TOKEN_CHARS_MAX,
    TOKEN_TYPE_CHARS_MAX,
    credential_faults,
    is_token,
)
from distributary.resource.api_subscription._delivery import (
    BACKOFF_POLICIES,
    BACKOFF_S_MAX,
    DELIVERY_SETTINGS,
    RATE_PER_S_MAX,
    RETRY_MAX,
    TIMEOUT_S_MAX,
)
from distributary.resource.api_subscription._maps import ENTRIES_BYTES_MAX, ENTRIES_MAX
from distributary.resource.api_subscription._parse import (
    TYPE_CHARS_MAX,
    TYPES_MAX,
    parse,
)
from distributary.resource.api_subscription._protocols import (
    PROTOCOL_SETTINGS,
    SHARED_SETTINGS,
)
from distributary.resource.api_subscription._restore import restore
from distributary.resource.api_subscription._secret_settings import (
    MASK,
    SECRET_SEGMENTS,
    SECRET_WORDS,
    SecretSettings,
    SecretValues,
    has_masks,
    is_secret,
    kept,
    put_back,
    sink_origin,
    take_out,
)
from distributary.resource.api_subscription._settings_amqp import (
    LINK_NAME_BYTES_MAX,
    PROPERTY_NAME,
    SETTLEMENT_MODES,
)
from distributary.resource.api_subscription._settings_http import OWN_HEADERS
from distributary.resource.api_subscription._settings_kafka import (
    ACKS,
    CLIENT_ID,
    CLIENT_ID_CHARS_MAX,
)
from distributary.resource.api_subscription._settings_mqtt import (
    EXPIRY_S_MAX,
    OWN_PROPERTIES,
    QOS_MAX,
)
from distributary.resource.api_subscription._shape import (
    HTTP_METHODS,
    PROTOCOLS,
    ConfigSpec,
    DeadLetterSpec,
    DeliverySpec,
    HttpSettings,
    SubscriptionSpec,
)

__all__ = [
    "ACKS",
    "BACKOFF_POLICIES",
    "BACKOFF_S_MAX",
    "CA_CERTS_CHARS_MAX",
    "CLIENT_ID",
    "CLIENT_ID_CHARS_MAX",
    "CONFIG_KEYS",
    "CREDENTIAL_MEMBERS",
    "CREDENTIAL_SHAPE",
    "DELIVERY_SETTINGS",
    "ENTRIES_BYTES_MAX",
    "ENTRIES_MAX",
    "EVENTS_COUNT_MAX",
    "EXPIRY_S_MAX",
    "HTTP_METHODS",
    "IDENTIFIER_BYTES_MAX",
    "INTERVAL_S_MAX",
    "INTERVAL_S_MIN",
    "LINK_NAME_BYTES_MAX",
    "MASK",
    "OWN_HEADERS",
    "OWN_PROPERTIES",
    "PROPERTY_NAME",
    "PROTOCOLS",
    "PROTOCOL_SETTINGS",
    "QOS_MAX",
    "RATE_PER_S_MAX",
    "RETRY_MAX",
    "SECRET_BYTES_MAX",
    "SECRET_SEGMENTS",
    "SECRET_WORDS",
    "SETTLEMENT_MODES",
    "SHARED_SETTINGS",
    "TIMEOUT_S_MAX",
    "TIMER_TYPE",
    "TOKEN_CHARS_MAX",
    "TOKEN_TYPE_CHARS_MAX",
    "TYPES_MAX",
    "TYPE_CHARS_MAX",
    "ConfigSpec",
    "DeadLetterSpec",
    "DeliverySpec",
    "HttpSettings",
    "SecretSettings",
    "SecretValues",
    "SubscriptionSpec",
    "credential_faults",
    "has_masks",
    "is_secret",
    "is_token",
    "kept",
    "parse",
    "put_back",
    "restore",
    "sink_origin",
    "take_out",
    "timer_source",
    "timer_type",
]
