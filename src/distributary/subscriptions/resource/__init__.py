"""``ApiSubscription``: a subscription of the CloudEvents Subscriptions API.

One description: ``parse`` checks with the schemas that the API description shows (those of each
protocol's settings are in its own module); rules that no schema can express are beside them.
``_revisions`` alone knows the three revisions of the specification that are accepted on input;
behind it there is only the newest.
"""

from distributary.subscriptions.resource._client_certificates import kept_pairs
from distributary.subscriptions.resource._config import CONFIG_KEYS, timer_source, timer_type
from distributary.subscriptions.resource._credentials import (
    CREDENTIAL_MEMBERS,
    CREDENTIAL_SHAPE,
    credential_faults,
)
from distributary.subscriptions.resource._parse import parse
from distributary.subscriptions.resource._restore import restore
from distributary.subscriptions.resource._schemas import (
    SELECTION,
    SHORT_DEAD_LETTER,
    TYPES_MAX,
    schemas,
    settings_schema,
)
from distributary.subscriptions.resource._secret_settings import (
    Party,
    SecretSettings,
    another,
    has_secrets,
    kept,
    put_back,
    sink_origin,
    sink_party,
    take_out,
    with_trust,
)
from distributary.subscriptions.resource._selection import (
    SELECTING,
    FilterSelection,
    read_selection,
)
from distributary.subscriptions.resource._settings import SHARED_SETTINGS, sends_credential
from distributary.subscriptions.resource._shape import (
    ApiSubscriptionSpec,
    ConfigSpec,
    DeadLetterSpec,
)
from distributary.subscriptions.resource._signature import (
    SIGNING_KEYS_MAX,
    Draw,
    Rotation,
    is_signed,
    keys_of,
    parse_rotation,
    public_key,
    rotate,
    with_secret,
)
