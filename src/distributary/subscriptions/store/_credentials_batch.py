"""Decides what a batch of changes does to sealed secrets, before anything is written.

Called by ``Batch``. Hides how a credential without secrets, and a masked setting, find the stored
values, how the keys that sign are made and kept, and for which sink all of these are (decision 10,
credentials). A row has the revision that it
belongs to, and each secret in it the origin that it is for, so that no other sink gets it.
"""

import dataclasses
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from distributary.core.deliver.credential import Credential
from distributary.core.deliver.origins import origin_of
from distributary.core.deliver.signing import SigningKeys
from distributary.core.errors import Fault, ResourceError
from distributary.resource import Faults
from distributary.subscriptions.resource import (
    CREDENTIAL_MEMBERS,
    ApiSubscriptionSpec,
    Draw,
    Party,
    Rotation,
    SecretSettings,
    another,
    credential_faults,
    is_signed,
    kept,
    kept_pairs,
    keys_of,
    restore,
    rotate,
    sink_party,
    with_trust,
)
from distributary.subscriptions.store._credentials_sealed import Sealed, Sealer
from distributary.subscriptions.store.stored import StoredSubscription

_MEMBER = CREDENTIAL_MEMBERS[0]
_PATH = f"$.{_MEMBER}"
_EXPIRES = "accessTokenExpiresUtc"


class Sealing(NamedTuple):
    """A spec with its sealed secrets.

    Attributes:
        spec: Its ``realized`` is complete.
        sealed: Its secrets.
        made: Keys that sign, whose newest was made by this change; None: none was.
    """

    spec: ApiSubscriptionSpec
    sealed: Sealed
    made: SigningKeys | None = None


@dataclass(slots=True)
class CredentialChanges:
    """The sealed secrets of the subscriptions that a batch changes.

    Attributes:
        sealer: Seals and opens.
        seq: Number of these changes.
        stored: Rows of existing subscriptions in the database, by uid.
        now_ms: Stamp of these changes, wall clock, milliseconds.
        draw: Makes secrets.
        written: Rows to write, by uid.
        gone: Uids whose rows are to be deleted.
    """

    sealer: Sealer
    seq: int
    stored: dict[str, Sealed]
    now_ms: int = 0
    draw: Draw = os.urandom
    written: dict[str, dict[str, Any]] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)

    def seal(
        self, uid: str, spec: ApiSubscriptionSpec, before: StoredSubscription | None
    ) -> Sealing:
        """Return *spec* with the secrets that it keeps of *before*, and with all sealed.

        Raises:
            ResourceError: It omits or masks secrets, and there are none to keep, or none for this
                sink.
            StoreError: There is no key to seal or to open with.
        """
        faults = Faults()
        credential = spec.credential
        if credential is not None and not credential.complete:
            spec = self._keep(faults, uid, spec, credential, before)
        secrets = self._kept_settings(faults, uid, spec, before)
        faults.refuse()
        spec, signing, made = self._sign(uid, spec, before)
        secrets = dataclasses.replace(secrets, signing=signing)
        credential = spec.credential
        sealed = Sealed(
            b"" if credential is None else self.sealer.seal(uid, credential),
            self.sealer.seal_settings(uid, secrets) if secrets else None,
        )
        return Sealing(spec, sealed, signing if made else None)

    def rotate(self, before: StoredSubscription, asked: Rotation) -> Sealing:
        """Return the spec of *before* with a new key that signs, and all its secrets sealed.

        Raises:
            ResourceError: It is not signed, or as many keys sign as may.
            StoreError: There is no key to seal or to open with.
        """
        sealed = self.stored.get(before.uid, Sealed())
        secrets = self._stored_settings(before.uid, before)
        if secrets.signing is None:
            fault = "the deliveries of this subscription are not signed"
            raise ResourceError([Fault("$.protocolsettings.signature", "missing", fault)])
        realized = msgspec.json.decode(before.realized)
        signing = rotate(realized, secrets.signing, asked, self.now_ms, self.draw)
        secrets = dataclasses.replace(secrets, signing=signing)
        sealed = sealed._replace(settings=self.sealer.seal_settings(before.uid, secrets))
        return Sealing(restore(msgspec.json.encode(realized)), sealed, signing)

    def put(self, uid: str, revision: int, sealed: Sealed) -> None:
        """Set the secrets, or none, of *revision* of the subscription *uid*."""
        if sealed == Sealed():
            self.remove(uid)
            return
        self.stored[uid] = sealed
        self.written[uid] = {
            "uid": uid,
            "revision": revision,
            "seq": self.seq,
            "sealed": sealed.credential,
            "settings": sealed.settings,
        }

    def remove(self, uid: str) -> None:
        """Delete the secrets of the subscription *uid*."""
        if self.stored.pop(uid, None) is not None:
            self.written.pop(uid, None)
            self.gone.add(uid)

    def _kept_settings(
        self,
        faults: Faults,
        uid: str,
        spec: ApiSubscriptionSpec,
        before: StoredSubscription | None,
    ) -> SecretSettings:
        """The secret settings of *spec*, with masks resolved from the store."""
        if spec.secrets.complete:
            return spec.secrets
        stored = self._stored_settings(uid, before)
        found = kept(faults, spec.to_json(), spec.secrets, stored)
        kept_pairs(faults, spec.to_json(), spec.secrets, found)
        return found

    def _stored_settings(self, uid: str, before: StoredSubscription | None) -> SecretSettings:
        sealed = self.stored.get(uid, Sealed()).settings
        if before is None or not sealed:
            return SecretSettings()
        found = self.sealer.open_settings(uid, sealed)
        return with_trust(found, msgspec.json.decode(before.realized))

    def _sign(
        self, uid: str, spec: ApiSubscriptionSpec, before: StoredSubscription | None
    ) -> tuple[ApiSubscriptionSpec, SigningKeys | None, bool]:
        """*spec* that shows its keys, these, and whether the newest is new."""
        realized = msgspec.json.decode(spec.realized)
        if not is_signed(realized):
            return spec, None, False
        stored = self._stored_settings(uid, before).signing
        found = keys_of(realized, stored, self.now_ms, self.draw)
        spec = dataclasses.replace(spec, realized=msgspec.json.encode(realized))
        return spec, found, stored is None or found.keys[0] != stored.keys[0]

    def _keep(
        self,
        faults: Faults,
        uid: str,
        spec: ApiSubscriptionSpec,
        new: Credential,
        before: StoredSubscription | None,
    ) -> ApiSubscriptionSpec:
        """*spec* whose credential has the stored secrets, where it may have them."""
        sealed = self.stored.get(uid, Sealed()).credential
        old = self.sealer.open(uid, sealed) if before is not None and sealed else None
        if (
            old is None
            or before is None
            or old.secret_ref is not None
            or (old.type, old.identifier) != (new.type, new.identifier)
        ):
            credential_faults(faults, _PATH, new.type)
            return spec
        shown_before = msgspec.json.decode(before.realized)
        elsewhere = _elsewhere(new, old, _party(old, shown_before))
        if elsewhere is not None:
            credential_faults(faults, _PATH, new.type, elsewhere)
            return spec
        realized = msgspec.json.decode(spec.realized)
        shown = shown_before[_MEMBER] | realized[_MEMBER]
        # A merely repeated expiry does not apply to a token that was renewed since then.
        moved = shown.get(_EXPIRES) != shown_before[_MEMBER].get(_EXPIRES)
        credential = Credential(
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
            origin=new.origin,
            trusted_by=new.trusted_by,
        )
        text = msgspec.json.encode(realized | {_MEMBER: shown})
        return dataclasses.replace(spec, realized=text, credential=credential)


def _party(credential: Credential, realized: Mapping[str, Any]) -> Party:
    """Whom *credential* of *realized* is for, also where an older version did not seal it."""
    origin, trusted_by = sink_party(realized)
    sealed = credential.trusted_by
    return Party(credential.origin or origin, trusted_by if sealed is None else sealed)


def _elsewhere(new: Credential, old: Credential, held: Party) -> str | None:
    """Why *new* may not keep the secrets of *old*, which are for *held*; None: it may."""
    assert new.origin is not None
    found = another(held, Party(new.origin, new.trusted_by))
    if found is not None:
        return f"the stored one was given for {found}"
    before, now = old.refresh_token_endpoint, new.refresh_token_endpoint
    if now is not None and (before is None or not origin_of(before).covers(origin_of(now))):
        return "the stored one was given for another origin of refreshTokenEndpoint"
    return None
