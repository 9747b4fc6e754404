"""Who asks, and what they may do: identities, grants, and the gate that is asked for each request.

One namespace is one tenant. A surface (HTTP, AMQP, the Kubernetes API) reads what a client shows
(``Credentials``), the ``Gate`` makes an ``Identity`` of it, and ``Identity.may`` answers whether
that has a ``Permission``. Pure: no I/O and no clock; what the gate knows comes as an
``AccessSnapshot``, one file that the control process writes and every receiver reads.

Callers: ``server.ingest`` (before a body is read), ``subscriptions``, ``knative``, ``server``.
Hides: how keys are hashed and compared, what is remembered of a client.
"""

from distributary.access.audiences import audience_of
from distributary.access.change import Change
from distributary.access.delegation import beyond, oversees
from distributary.access.gate import Decision, Gate
from distributary.access.identity import (
    ALL_NAMESPACES,
    ANYBODY,
    IDENTITY_FIELD,
    LOCAL,
    NOBODY,
    Grant,
    Identity,
    IdentityKind,
    Permission,
    Verb,
    decode_identity,
    encode_identity,
    sender_of,
)
from distributary.access.issuers import IssuerRecord
from distributary.access.keys import KeyRecord, NewKey, hash_of, make_key
from distributary.access.policies import Policies, PolicyRecord, all_targets
from distributary.access.presented import CertificateRecord, Credentials, PeerCertificate
from distributary.access.refusals import ForbiddenError, UnauthenticatedError, challenge
from distributary.access.shares import TENANT_SHARE, has_its_share, whose
from distributary.access.snapshot import AccessSnapshot, SnapshotReader, decode_snapshot

__all__ = [
    "ALL_NAMESPACES",
    "ANYBODY",
    "IDENTITY_FIELD",
    "LOCAL",
    "NOBODY",
    "TENANT_SHARE",
    "AccessSnapshot",
    "CertificateRecord",
    "Change",
    "Credentials",
    "Decision",
    "ForbiddenError",
    "Gate",
    "Grant",
    "Identity",
    "IdentityKind",
    "IssuerRecord",
    "KeyRecord",
    "NewKey",
    "PeerCertificate",
    "Permission",
    "Policies",
    "PolicyRecord",
    "SnapshotReader",
    "UnauthenticatedError",
    "Verb",
    "all_targets",
    "audience_of",
    "beyond",
    "challenge",
    "decode_identity",
    "decode_snapshot",
    "encode_identity",
    "has_its_share",
    "hash_of",
    "make_key",
    "oversees",
    "sender_of",
    "whose",
]
