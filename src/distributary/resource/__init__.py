"""Resources that people write: their shape, their defaults and their validation. Pure.

Called by ``subscriptions`` and ``knative``, which store them, make routes of them and render them,
and by ``partitions``, which reads where and how to deliver. Hides what the revisions of a
specification look like and how a fault is found and named. Knows no filter dialect, no clock
and no store: ``ResourceRules`` brings in what is decided elsewhere.
"""

from distributary.resource import patterns
from distributary.resource._consent import NOBODY_IS_ASKED, ConsentMode, ConsentRule, target_key
from distributary.resource._json import JSON_DEPTH_MAX, RESOURCE_BYTES_MAX, decode_json
from distributary.resource._own import (
    NOWHERE,
    IsLocal,
    OwnAddresses,
    is_loopback,
    literal,
    takes_events,
)
from distributary.resource._ports import PORTS_DENIED
from distributary.resource._reach import ErrorData, Reach, protocols_allowed
from distributary.resource.certificates import adds_trust, certificates_in, fingerprints_in
from distributary.resource.credential_texts import (
    IDENTIFIER_BYTES_MAX,
    SECRET_BYTES_MAX,
    TOKEN_CHARS_MAX,
    is_secret,
    is_token,
)
from distributary.resource.faults import FAULTS_MAX, Faults, member, one_of
from distributary.resource.kept_secret import CA_CERTS, SINKS, KeptSecret, Vault, sinks_in
from distributary.resource.maps import bounded_map
from distributary.resource.rules import ResourceRules
from distributary.resource.schema import Schema, closed, published, ref
from distributary.resource.secret_files import SecretFile
from distributary.resource.secret_uses import (
    NOT_FOR_SINK,
    UNUSABLE,
    Withheld,
    credential_of,
    signing_keys_of,
    withheld_from,
)
from distributary.resource.sinks import (
    CLEARTEXT,
    DENIED_NETWORKS,
    LOCAL_NETWORKS,
    METADATA_NETWORKS,
    OWN_EVENTS,
    OWN_LISTENER,
    PORT_DENIED,
    SinkRule,
)
from distributary.resource.uri import SinkUri, broker_uri
