"""``ApiSubscription``: a subscription of the CloudEvents Subscriptions API.

Shape (``_shape``), defaults (``_defaults``), validation (``_parse`` and what it calls). The
three revisions of the specification that are accepted on input are known to ``_revisions``
alone; behind it there is only the newest.
"""

from distributary.resource.api_subscription._delivery import (
    BACKOFF_POLICIES,
    BACKOFF_S_MAX,
    DELIVERY_SETTINGS,
    RATE_PER_S_MAX,
    RETRY_MAX,
    TIMEOUT_S_MAX,
)
from distributary.resource.api_subscription._parse import (
    CONFIG_KEYS,
    TYPE_CHARS_MAX,
    TYPES_MAX,
    parse,
)
from distributary.resource.api_subscription._settings import (
    HEADERS_BYTES_MAX,
    HEADERS_MAX,
    HTTP_SETTINGS,
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
    "DELIVERY_SETTINGS",
    "HEADERS_BYTES_MAX",
    "HEADERS_MAX",
    "HTTP_METHODS",
    "HTTP_SETTINGS",
    "PROTOCOLS",
    "PROTOCOLS_SUPPORTED",
    "RATE_PER_S_MAX",
    "RETRY_MAX",
    "TIMEOUT_S_MAX",
    "TYPES_MAX",
    "TYPE_CHARS_MAX",
    "ConfigSpec",
    "DeadLetterSpec",
    "DeliverySpec",
    "HttpSettings",
    "SubscriptionSpec",
    "parse",
    "restore",
]
