"""What a batch of changes does to sealed credentials: decided before anything is written.

Called by ``Batch``. Hides how a credential without secrets finds those that are stored
(decision 10). A row holds the revision that it belongs to, so that nobody ever sends the secret
of one revision to the sink of another.
"""

import dataclasses
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from distributary.control._credentials_sealed import Sealer
from distributary.control._stored import StoredSubscription
from distributary.errors import ResourceError
from distributary.resource import Credential, Faults, SubscriptionSpec
from distributary.resource.api_subscription import CREDENTIAL_MEMBERS, credential_faults

_MEMBER = CREDENTIAL_MEMBERS[0]
_PATH = f"$.{_MEMBER}"
_EXPIRES = "accessTokenExpiresUtc"


class Sealing(NamedTuple):
    """A spec with what the store keeps of it.

    Attributes:
        spec: Its ``realized`` is complete.
        sealed: Its credential; None: it has none.
    """

    spec: SubscriptionSpec
    sealed: bytes | None


@dataclass(slots=True)
class CredentialChanges:
    """The sealed credentials of the subscriptions that a batch changes.

    Attributes:
        sealer: Seals and opens.
        seq: Number of these changes.
        stored: What the database holds, by uid; those of the subscriptions that stand.
        written: Rows to be written, by uid.
        gone: Uids whose rows are to be deleted.
    """

    sealer: Sealer
    seq: int
    stored: dict[str, bytes]
    written: dict[str, dict[str, Any]] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)

    def seal(self, uid: str, spec: SubscriptionSpec, before: StoredSubscription | None) -> Sealing:
        """*spec* with all that it keeps of *before*, and its credential sealed.

        Raises:
            ResourceError: It leaves secrets out, and there are none to keep.
            StoreError: There is no key to seal or to open with.
        """
        credential = spec.credential
        if credential is None:
            return Sealing(spec, None)
        if not credential.complete:
            spec, credential = self._keep(uid, spec, credential, before)
        return Sealing(spec, self.sealer.seal(uid, credential))

    def put(self, uid: str, revision: int, sealed: bytes | None) -> None:
        """The subscription *uid* stands in *revision*, with this credential or with none."""
        if sealed is None:
            self.remove(uid)
            return
        self.stored[uid] = sealed
        self.written[uid] = {"uid": uid, "revision": revision, "seq": self.seq, "sealed": sealed}

    def remove(self, uid: str) -> None:
        """The subscription *uid* has no credential any more."""
        if self.stored.pop(uid, None) is not None:
            self.written.pop(uid, None)
            self.gone.add(uid)

    def _keep(
        self,
        uid: str,
        spec: SubscriptionSpec,
        new: Credential,
        before: StoredSubscription | None,
    ) -> tuple[SubscriptionSpec, Credential]:
        """*spec* and its credential with the stored secrets, where it may have them."""
        sealed = self.stored.get(uid)
        old = self.sealer.open(uid, sealed) if before is not None and sealed else None
        if (
            old is None
            or before is None
            or (old.type, old.identifier) != (new.type, new.identifier)
        ):
            faults = Faults()
            credential_faults(faults, _PATH, new.type)
            raise ResourceError(faults.found)
        shown_before = msgspec.json.decode(before.realized)[_MEMBER]
        realized = msgspec.json.decode(spec.realized)
        shown = shown_before | realized[_MEMBER]
        # An expiry that was only repeated says nothing of a token that was renewed since then.
        moved = shown.get(_EXPIRES) != shown_before.get(_EXPIRES)
        kept = Credential(
            new.type,
            identifier=new.identifier,
            secret=old.secret,
            access_token=old.access_token,
            access_token_type=new.access_token_type or old.access_token_type,
            access_token_expires_ms=(
                new.access_token_expires_ms if moved else old.access_token_expires_ms
            ),
            refresh_token=old.refresh_token,
            refresh_token_endpoint=new.refresh_token_endpoint or old.refresh_token_endpoint,
        )
        text = msgspec.json.encode(realized | {_MEMBER: shown})
        return dataclasses.replace(spec, realized=text, credential=kept), kept
