"""``ApiSubscription``: a subscription of the CloudEvents Subscriptions API.

Shape (``_shape``), defaults (``_defaults``), validation (``_parse`` and what it calls). The
three revisions of the specification that are accepted on input are known to ``_revisions``
alone; behind it there is only the newest.
"""

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
from distributary.resource.api_subscription._parse import (
    TYPE_CHARS_MAX,
    TYPES_MAX,
    parse,
)
from distributary.resource.api_subscription._settings import (
    HEADERS_BYTES_MAX,
    HEADERS_MAX,
    HTTP_SETTINGS,
    OWN_HEADERS,
)
from distributary.resource.api_subscription._shape import (
    HTTP_METHODS,
    PROTOCOLS,
    PROTOCOLS_SUPPORTED,
    ConfigSpec,
    DeadLetterSpec,
    DeliverySpec,
    HttpSettings,
    SubscriptionSpec,
    restore,
)

__all__ = [
    "BACKOFF_POLICIES",
    "BACKOFF_S_MAX",
    "CONFIG_KEYS",
    "CREDENTIAL_MEMBERS",
    "CREDENTIAL_SHAPE",
    "DELIVERY_SETTINGS",
    "EVENTS_COUNT_MAX",
    "HEADERS_BYTES_MAX",
    "HEADERS_MAX",
    "HTTP_METHODS",
    "HTTP_SETTINGS",
    "IDENTIFIER_BYTES_MAX",
    "INTERVAL_S_MAX",
    "INTERVAL_S_MIN",
    "OWN_HEADERS",
    "PROTOCOLS",
    "PROTOCOLS_SUPPORTED",
    "RATE_PER_S_MAX",
    "RETRY_MAX",
    "SECRET_BYTES_MAX",
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
    "SubscriptionSpec",
    "credential_faults",
    "is_token",
    "parse",
    "restore",
    "timer_source",
    "timer_type",
]
