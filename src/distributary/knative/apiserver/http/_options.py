"""Query parameters: options of lists, watches and writes.

Unknown parameters are ignored, as by the API server; clients send some that are not supported here.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from distributary.knative.apiserver.machinery import Cause, StatusError
from distributary.knative.apiserver.machinery.names import forbidden, unsupported

MANAGER_CHARS_MAX: Final = 128
"""Name of a field manager (Kubernetes' own limit)."""

LIMIT_MAX: Final = 2**31
"""Largest page; larger limits mean everything. Keeps arithmetic small."""

TIMEOUT_S_MAX: Final = 24 * 3600
"""Longest watch that a client may request, seconds: a forgotten one ends within a day."""

_VALIDATIONS: Final = ("Ignore", "Warn", "Strict")
_MATCHES: Final = ("Exact", "NotOlderThan")
_DIGITS: Final = re.compile(r"[0-9]{1,18}")
_INTEGER: Final = re.compile(r"-?[0-9]{1,18}")

Query = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ListOptions:
    """Options of a list or watch.

    Attributes:
        labels: Label selector, as sent.
        fields: Field selector, as sent.
        limit: Objects of a page; 0: all.
        token: ``continue`` of the previous page; empty: the first page.
        version: ``resourceVersion``; None: absent.
        match: ``Exact``, ``NotOlderThan``, or empty: absent.
        watch: Whether to watch.
        timeout_s: Length of the watch, seconds; None: the server chooses.
        bookmarks: Whether the client accepts bookmarks.
        initial: Whether existing objects come first (``sendInitialEvents``); None: depends on
            *version*.
    """

    labels: str
    fields: str
    limit: int
    token: str
    version: int | None
    match: str
    watch: bool
    timeout_s: int | None
    bookmarks: bool
    initial: bool | None


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """Options of a write.

    Attributes:
        dry_run: Do everything but store it.
        manager: Field manager; never empty.
        named: Whether the client named the manager.
        validation: Treatment of unknown fields: ``Ignore``, ``Warn`` or ``Strict``.
        force: Take over fields of other managers; None: absent.
    """

    dry_run: bool
    manager: str
    named: bool
    validation: str
    force: bool | None


def read_list_options(query: Query, *, watched: bool) -> ListOptions:
    """Read the options of a list or watch; *watched*: the path is that of a watch.

    Raises:
        StatusError: ``BadRequest``: not a number. ``Invalid``: inconsistent options, with every
            fault.
    """
    timeout_s = _integer(query, "timeoutSeconds")
    options = ListOptions(
        labels=query.get("labelSelector", ""),
        fields=query.get("fieldSelector", ""),
        limit=min(max(0, _integer(query, "limit") or 0), LIMIT_MAX),
        token=query.get("continue", ""),
        version=_version(query.get("resourceVersion", "")),
        match=query.get("resourceVersionMatch", ""),
        watch=watched or bool(_switch(query, "watch")),
        timeout_s=min(timeout_s, TIMEOUT_S_MAX) if timeout_s and timeout_s > 0 else None,
        bookmarks=bool(_switch(query, "allowWatchBookmarks")),
        initial=_switch(query, "sendInitialEvents"),
    )
    causes = _watch_faults(options) if options.watch else _list_faults(options)
    if causes:
        raise invalid_options("ListOptions", *causes)
    return options


def read_write_options(query: Query, user_agent: str, kind: str) -> WriteOptions:
    """Read the options of a create, update or patch.

    Args:
        query: Parameters of the request.
        user_agent: Its ``User-Agent``, the default name of the manager.
        kind: Name of the options in errors: ``CreateOptions``...

    Raises:
        StatusError: ``Invalid``, with every fault.
    """
    dry_run = query.get("dryRun", "")
    causes = [] if dry_run in ("", "All") else [unsupported("dryRun", dry_run, ("All",))]
    manager = query.get("fieldManager", "")
    if len(manager) > MANAGER_CHARS_MAX or not manager.isprintable():
        causes.append(
            Cause(
                "fieldManager",
                "FieldValueInvalid",
                f"Invalid value: at most {MANAGER_CHARS_MAX} printable characters are allowed",
            )
        )
    validation = query.get("fieldValidation") or "Warn"
    if validation not in _VALIDATIONS:
        causes.append(unsupported("fieldValidation", validation, _VALIDATIONS))
    if causes:
        raise invalid_options(kind, *causes)
    return WriteOptions(
        dry_run=bool(dry_run),
        manager=manager or _agent(user_agent),
        named=bool(manager),
        validation=validation,
        force=_switch(query, "force"),
    )


def invalid_options(kind: str, *causes: Cause) -> StatusError:
    """``Invalid``: options of *kind* have the faults *causes*."""
    lines = ", ".join(f"{cause.field}: {cause.message}" for cause in causes)
    message = f'{kind}.meta.k8s.io "" is invalid: {lines}'
    return StatusError("Invalid", message, causes=causes)


def _list_faults(options: ListOptions) -> list[Cause]:
    causes = []
    if options.initial is not None:
        causes.append(forbidden("sendInitialEvents", "is forbidden for list"))
    if not options.match:
        return causes
    if options.token:
        causes.append(forbidden("resourceVersionMatch", "is forbidden when continue is provided"))
    if options.version is None:
        why = "is forbidden unless resourceVersion is provided"
        causes.append(forbidden("resourceVersionMatch", why))
    if options.match not in _MATCHES:
        causes.append(unsupported("resourceVersionMatch", options.match, _MATCHES))
    elif options.match == "Exact" and options.version == 0:
        why = '"Exact" is forbidden for resourceVersion "0"'
        causes.append(forbidden("resourceVersionMatch", why))
    return causes


def _watch_faults(options: ListOptions) -> list[Cause]:
    if options.initial is None:
        if not options.match:
            return []
        why = "is forbidden for watch unless sendInitialEvents is provided"
        return [forbidden("resourceVersionMatch", why)]
    if options.match == "NotOlderThan":
        return []
    if options.match:
        return [unsupported("resourceVersionMatch", options.match, ("NotOlderThan",))]
    why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
    return [forbidden("resourceVersionMatch", why)]


def _version(text: str) -> int | None:
    if not text:
        return None
    if not _DIGITS.fullmatch(text):
        raise StatusError("BadRequest", f"invalid resource version {text[:100]!r}")
    return int(text)


def _integer(query: Query, name: str) -> int | None:
    text = query.get(name)
    if not text:
        return None
    if not _INTEGER.fullmatch(text):
        raise StatusError("BadRequest", f"{name}: expected a whole number; got {text[:100]!r}")
    return int(text)


def _switch(query: Query, name: str) -> bool | None:
    """True unless ``false`` or ``0`` (apimachinery); None: absent."""
    value = query.get(name)
    return None if value is None else value.lower() not in ("false", "0")


def _agent(user_agent: str) -> str:
    name = user_agent.partition("/")[0][:MANAGER_CHARS_MAX].strip()
    return name if name and name.isprintable() else "unknown"
