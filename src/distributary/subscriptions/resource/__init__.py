"""``ApiSubscription``: a subscription of the CloudEvents Subscriptions API.

One description: schemas (of each protocol's settings in its own module), which ``parse`` checks
with and the API description shows; what no schema can say stands beside them. The three revisions
of the specification that are accepted on input are known to ``_revisions`` alone; behind it there
is only the newest.
"""

from distributary.subscriptions.resource._config import (
    CONFIG_KEYS,
    TIMER_TYPE,
    timer_source,
    timer_type,
)
from distributary.subscriptions.resource._credentials import (
    CREDENTIAL_MEMBERS,
    CREDENTIAL_SHAPE,
    IDENTIFIER_BYTES_MAX,
    SECRET_BYTES_MAX,
    TOKEN_CHARS_MAX,
    credential_faults,
    is_token,
)
from distributary.subscriptions.resource._parse import parse
from distributary.subscriptions.resource._restore import restore
from distributary.subscriptions.resource._schemas import (
    SHORT_DEAD_LETTER,
    TYPES_MAX,
    schemas,
    settings_schema,
)
from distributary.subscriptions.resource._secret_settings import (
    MASK,
    SecretSettings,
    has_masks,
    kept,
    put_back,
    sink_origin,
    take_out,
)
from distributary.subscriptions.resource._settings import SHARED_SETTINGS
from distributary.subscriptions.resource._shape import (
    ApiSubscriptionSpec,
    ConfigSpec,
    DeadLetterSpec,
)
