"""Records the changes that go through an ASGI application in the audit log."""

import re
from collections.abc import Callable
from typing import Final

import msgspec
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from distributary.access import sender_of
from distributary.server.processes.base.audit import AuditLine, AuditLog

CALLBACKS: Final = "/consent/"
"""Paths at which a GET changes something too, and nobody need be known."""

DRY_RUN: Final = "dry_run"
"""Member of a request's state: true where the application changes nothing, as it was asked. A query
alone says nothing: some paths have no dry run, and change what they are asked to."""

PARTLY: Final = "partly"
"""Member of a request's state: true where something was changed, whatever the answer is."""

_READING: Final = frozenset(("GET", "HEAD", "OPTIONS"))
_QUESTIONS: Final = re.compile(
    r"/can(/.*)?|/apis/authorization\.k8s\.io/.*|(/namespaces/[^/]+)?/filters/try|/console(/.*)?",
    re.DOTALL,
)
"""Paths to which a POST asks, and changes nothing."""


class _Named(msgspec.Struct):
    name: str = ""


class _Made(msgspec.Struct):
    """What is read of a new object of the Kubernetes API."""

    metadata: _Named = msgspec.field(default_factory=_Named)


class Audited:
    """An ASGI application whose changes have lines in the audit log.

    Args:
        application: Answers the requests.
        log: The audit log.
    """

    def __init__(self, application: ASGIApp, log: AuditLog) -> None:
        self._application = application
        self._log = log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request (ASGI); one that ends without a response has status 500."""
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return
        scope.setdefault("state", {})  # in which the application notes a dry run
        consents = scope["method"] == "GET" and scope["path"].startswith(CALLBACKS)
        if (scope["method"] in _READING and not consents) or _asks(scope["path"]):
            await self._application(scope, receive, send)
            return
        answered = _Answered(scope, send, self._write)
        try:
            await self._application(scope, receive, answered.send)
        finally:
            answered.end()

    def _write(self, line: AuditLine) -> None:
        # Anybody may guess at a callback's key: that must not push lines of others out.
        if line.status == 200 or not line.object.startswith(CALLBACKS):
            self._log.write(line)


class _Answered:
    """The response to one change, as it passes.

    The line is written before the end of the response: who has the answer finds the line, and a
    kill between the two leaves no change that was answered without one.
    """

    def __init__(self, scope: Scope, send: Send, write: Callable[[AuditLine], None]) -> None:
        self._scope = scope
        self._send = send
        self._write = write
        self._ended = False
        self._status = 500
        self._location = ""
        self._name = ""

    async def send(self, message: Message) -> None:
        """Pass *message* on."""
        if message["type"] == "http.response.start":
            self._status = message["status"]
            for name, value in message["headers"]:
                if name == b"location":
                    self._location = value.decode("latin-1").partition("?")[0]
        elif self._makes_object() and not self._name:
            self._name = _name_in(message.get("body", b""))
        if message["type"] == "http.response.body" and not message.get("more_body", False):
            self.end()
        await self._send(message)

    def end(self) -> None:
        """Write the line of this change, once."""
        if not self._ended:
            self._ended = True
            self._write(self._line())

    def _makes_object(self) -> bool:
        path: str = self._scope["path"]
        return self._scope["method"] == "POST" and path.startswith(("/api/", "/apis/"))

    def _line(self) -> AuditLine:
        """The line of this change."""
        scope = self._scope
        sender = sender_of(scope["headers"])
        forwarded = [value for name, value in scope["headers"] if name == b"x-forwarded-for"]
        path = scope["path"]
        if self._location.startswith(f"{path}/"):
            path = self._location
        elif self._name:
            path = f"{path}/{self._name}"
        return AuditLine(
            time_ms=0,
            who=sender.name,
            how=sender.how,
            what=scope["method"],
            object=path,
            origin=forwarded[-1].decode("latin-1") if forwarded else "",
            status=self._status,
            surface="http",
            dry_run=scope["state"].get(DRY_RUN, False),
            partly=self._status >= 400 and scope["state"].get(PARTLY, False),
        )


def _asks(path: str) -> bool:
    return _QUESTIONS.fullmatch(path) is not None


def _name_in(body: bytes) -> str:
    try:
        return msgspec.json.decode(body, type=_Made).metadata.name
    except msgspec.MsgspecError:
        return ""  # a refusal, a table, or a streamed list
