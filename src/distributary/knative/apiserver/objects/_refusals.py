"""How writes are refused, in the words of the Kubernetes API server."""

from distributary.knative.apiserver.machinery import Key, Kind, StatusError, conflict
from distributary.knative.apiserver.objects._values import Stored, Write


def not_found(kind: Kind, name: str) -> StatusError:
    """There is no object of that name."""
    return StatusError("NotFound", f'{kind.resource} "{name}" not found')


def already_there(kind: Kind, name: str) -> StatusError:
    """An object of that name exists."""
    return StatusError("AlreadyExists", f'{kind.resource} "{name}" already exists', name=name)


def check_incarnation(kind: Kind, before: Stored, write: Write) -> None:
    """Hold *before* against the preconditions in *write*.

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
    """The server holds as much as it may: *limit* says of what."""
    return StatusError(
        "Forbidden",
        f'{key.resource} "{key.name}" is forbidden: exceeded quota: the server holds at most '
        f"{limit}",
        name=key.name,
    )
