"""Takes the values out of Secrets before they are stored: an object never has them.

Called by transactions. A stored Secret has an empty value for each key. Writing an empty value
keeps the stored one, so that clients can write back what they have read.
"""

import base64
from collections.abc import Mapping
from typing import NamedTuple

from distributary.core.errors import StoreError
from distributary.knative.apiserver.machinery import Cause, Object, StatusError, invalid
from distributary.knative.apiserver.machinery.names import forbidden
from distributary.knative.apiserver.objects._rules import ObjectRules
from distributary.knative.apiserver.objects._values import Stored
from distributary.knative.kinds import SECRET
from distributary.resource import CA_CERTS, SINKS, KeptSecret, Vault, adds_trust, sinks_in


class Taken(NamedTuple):
    """A Secret without its values.

    Attributes:
        content: With an empty value for each key.
        sealed: The values.
    """

    content: Object
    sealed: bytes


def take_values(new: Object, before: Stored | None, rules: ObjectRules) -> Taken:
    """Take the values out of the admitted Secret *new*, which replaces *before*.

    Raises:
        StatusError: ``Invalid``: a value that is kept may not go to other sinks, or to sinks that
            are trusted by other certificates, or it is immutable; ``ServiceUnavailable``: values
            cannot be sealed here.
        StoreError: The stored values cannot be opened, and are needed.
    """
    vault = rules.vault
    if vault is None:
        raise StatusError("ServiceUnavailable", "this server keeps no secrets")
    data: Object = new.get("data") or {}
    values = {name: base64.b64decode(text) for name, text in data.items()}
    old = None if before is None else _stored(vault, before, values)
    if old is None:
        before, old = None, KeptSecret(values={})
    kept = {name for name, value in values.items() if not value and old.values.get(name)}
    values |= {name: old.values[name] for name in kept}
    secret = KeptSecret(values=values, sinks=_sinks(new))
    causes = [] if before is None else list(_faults(secret, old, before.content, kept))
    if causes:
        raise invalid(SECRET, new["metadata"]["name"], causes)
    same = before is not None and secret == old
    uid = new["metadata"]["uid"]
    sealed = before.sealed if before and same else vault.seal_kept(uid, secret)
    content = {**new, "data": dict.fromkeys(data, "")} if data else new
    return Taken(content, sealed)


def _stored(vault: Vault, before: Stored, values: Mapping[str, bytes]) -> KeptSecret | None:
    """The values of *before*; None: they cannot be opened, and *values* replace all of them.

    Raises:
        StoreError: They cannot be opened: some would be kept, or none may change.
    """
    try:
        return vault.open_kept(before.uid, before.sealed)
    except StoreError:
        if before.content.get("immutable") or not all(values.values()):
            raise
        return None


def _sinks(content: Object) -> tuple[str, ...]:
    return sinks_in((content["metadata"].get("annotations") or {}).get(SINKS))


def _faults(secret: KeptSecret, old: KeptSecret, before: Object, kept: set[str]) -> list[Cause]:
    if before.get("immutable") and secret.values != old.values:
        return [forbidden("data", "field is immutable when `immutable` is set")]
    again = f"send the values of {', '.join(sorted(kept))} again to let them go to"
    causes: list[Cause] = []
    if kept and not set(secret.sinks) <= set(old.sinks):
        causes.append(forbidden(f"metadata.annotations[{SINKS}]", f"{again} other sinks"))
    changed = secret.values.get(CA_CERTS) != old.values.get(CA_CERTS)
    if kept and changed and adds_trust(secret.trusted_by, old.trusted_by or ()):
        why = f"{again} sinks that are trusted by other certificates"
        causes.append(forbidden(f"data[{CA_CERTS}]", why))
    return causes
