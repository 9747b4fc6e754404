"""The ASGI application of the console: looks a path up in the table of its files."""

from typing import Final

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from distributary.server.console._files import PATH, ConsoleFile, read_files
from distributary.subscriptions.http.problem_details import PROBLEM_TYPE, Problem

CONTENT_SECURITY_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self';"
    " base-uri 'none'; form-action 'none'; frame-ancestors 'none';"
    " require-trusted-types-for 'script'; trusted-types 'none'"
)
"""Nothing inline, nothing of another origin, in no frame; and no text becomes markup or a script:
the browser refuses it (Content Security Policy 3; Trusted Types)."""

_FIELDS: Final = {
    "content-security-policy": CONTENT_SECURITY_POLICY,
    "cross-origin-opener-policy": "same-origin",
    "referrer-policy": "no-referrer",
}
_ALLOW: Final = "GET, HEAD, OPTIONS"


class Console:
    """Answers ``/console`` and the paths below it.

    The files are read here, once: no request names a file of the disk.
    """

    def __init__(self) -> None:
        self._files = read_files()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request (ASGI)."""
        if scope["type"] == "http":
            await self._answer(scope)(scope, receive, send)

    def _answer(self, scope: Scope) -> Response:
        path: str = scope["path"]
        found = self._files.get(PATH if path == f"{PATH}/" else path)
        if found is None:
            return _problem("notfound", "the console has no such file")
        method = scope["method"]
        if method == "OPTIONS":
            return Response(headers={"allow": _ALLOW})
        if method not in {"GET", "HEAD"}:
            detail = f"{method} is not among the methods of this path: {_ALLOW}"
            return _problem("method-not-allowed", detail, {"allow": _ALLOW})
        fields = _FIELDS | {"etag": found.etag, "cache-control": found.caching}
        if _is_known(scope, found):
            return Response(status_code=304, headers=fields)
        answer = Response(found.body, headers=fields | {"content-type": found.media_type})
        if method == "HEAD":
            answer.body = b""
        return answer


def _is_known(scope: Scope, file: ConsoleFile) -> bool:
    """Whether the client has *file* already (RFC 9110 section 13.1.2)."""
    tags = [value for name, value in scope["headers"] if name == b"if-none-match"]
    known = {tag.strip().removeprefix("W/") for tag in b",".join(tags).decode("latin-1").split(",")}
    return file.etag in known or "*" in known


def _problem(code: str, detail: str, fields: dict[str, str] | None = None) -> Response:
    found = Problem(code, detail)
    kept = {"cache-control": "no-store", **(fields or {})}
    return Response(found.encode(), found.status, kept, PROBLEM_TYPE)
