"""Errors of refused writes, worded as by the Kubernetes API server."""

from distributary.knative.apiserver.machinery import Key, Kind, StatusError, conflict
from distributary.knative.apiserver.objects._values import Stored, Write


def not_found(kind: Kind, name: str) -> StatusError:
    """``NotFound``: there is no object of that name."""
    return StatusError("NotFound", f'{kind.resource} "{name}" not found')


def already_there(kind: Kind, name: str) -> StatusError:
    """``AlreadyExists``: an object of that name exists."""
    return StatusError("AlreadyExists", f'{kind.resource} "{name}" already exists', name=name)


def check_incarnation(kind: Kind, before: Stored, write: Write) -> None:
    """Check the preconditions in *write* against *before*.

    Raises:
        StatusError: ``Conflict``.
    """
    if write.uid is not None and write.uid != before.uid:
        raise conflict(
            kind,
            before.key.name,
            f"Precondition failed: UID in precondition: {write.uid[:100]}, "
            f"UID in object meta: {before.uid}",
        )
    if write.version is not None and write.version != before.version:
        raise conflict(
            kind,
            before.key.name,
            f"Precondition failed: ResourceVersion in precondition: {write.version}, "
            f"ResourceVersion in object meta: {before.version}",
        )


def no_room(key: Key, limit: str) -> StatusError:
    """``Forbidden``: the server is full; *limit* names which limit."""
    return StatusError(
        "Forbidden",
        f'{key.resource} "{key.name}" is forbidden: exceeded quota: the server holds at most '
        f"{limit}",
        name=key.name,
    )
