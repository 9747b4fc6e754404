"""Encodes an object's content as JSON, and decodes it."""

from typing import Any, Final

import msgspec

from distributary.knative.apiserver.machinery import Key, Object, StatusError
from distributary.knative.apiserver.machinery.metadata import with_version
from distributary.knative.apiserver.objects._values import Stored
from distributary.knative.kinds import EVENT_POLICY, cost_of

_decode: Final = msgspec.json.Decoder(dict[str, Any]).decode


def stored_as(
    key: Key,
    uid: str,
    version: int,
    content: Object,
    *,
    early: bool = False,
    before: Stored | None = None,
) -> Stored:
    """Build the stored form of *content* with this version, which replaces *before*.

    Decoded again from its JSON: it shares no part with *content*, and equal member names of all
    objects share memory.

    Raises:
        StatusError: ``BadRequest``: it cannot be JSON (a lone surrogate).
    """
    json = _encoded(with_version(content, version))
    return restored(key, uid, version, json, early=early, before=before)


def restored(
    key: Key,
    uid: str,
    version: int,
    json: bytes,
    *,
    early: bool = False,
    before: Stored | None = None,
) -> Stored:
    """Rebuild what ``stored_as`` made from its JSON."""
    content = _decode(json)
    stored = Stored(key, uid, version, content, json, early)
    if key.resource != EVENT_POLICY.resource:
        return stored
    # Statuses change more often than specs, whose filters are compiled for their cost.
    if before is not None and before.content.get("spec") == content.get("spec"):
        return stored._replace(cost=before.cost)
    return stored._replace(cost=cost_of(content))


def rehearsed(stored: Stored, before: Stored | None) -> Stored:
    """*stored* as the response to a dry run: with the version of *before*, or without one."""
    if before is not None:
        return stored_as(stored.key, stored.uid, before.version, stored.content)
    metadata = {**stored.content["metadata"]}
    del metadata["resourceVersion"]
    content = {**stored.content, "metadata": metadata}
    return Stored(stored.key, stored.uid, 0, content, _encoded(content))


def _encoded(content: Object) -> bytes:
    try:
        return msgspec.json.encode(content)
    except (UnicodeEncodeError, RecursionError) as error:
        raise StatusError("BadRequest", f"the object cannot be written as JSON: {error}") from error
