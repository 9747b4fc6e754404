"""The files of the console, read once: a table of paths, from which alone answers are made."""

import hashlib
from dataclasses import dataclass
from importlib import resources
from typing import Final

PATH: Final = "/console"
"""Path of the page."""

BYTES_MAX: Final = 300_000
"""Most bytes of all files together: a console is opened when something is wrong, perhaps over a bad
line, and is there within a second or two on one of 2 Mbit/s."""

_PAGE: Final = "index.html"
_ASSETS: Final = "/console/assets/"
"""Where the page as it is written looks for the other files."""

_TYPES: Final = {
    "css": "text/css; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
_ALWAYS_ASKED: Final = "no-cache"
_FOR_EVER: Final = "public, max-age=31536000, immutable"


@dataclass(frozen=True, slots=True)
class ConsoleFile:
    """A file as it is answered.

    Attributes:
        body: Its content.
        media_type: Value of ``Content-Type``.
        etag: Entity tag: changes with the content.
        caching: Value of ``Cache-Control``.
    """

    body: bytes
    media_type: str
    etag: str
    caching: str


def read_files() -> dict[str, ConsoleFile]:
    """Read the files of the package; returns them by their path on the server.

    The path of every file but the page has a digest of all of them: browsers keep it for ever, and
    a page never runs with files of another version.
    """
    folder = resources.files("distributary.server.console") / "static"
    found = {each.name: each.read_bytes() for each in folder.iterdir() if each.is_file()}
    listing = b"".join(name.encode() + b"\0" + _digest(found[name]) for name in sorted(found))
    place = f"{PATH}/{_digest(listing).hex()[:16]}/"
    page = found.pop(_PAGE).replace(_ASSETS.encode(), place.encode())
    files = {place + name: _file(name, body, _FOR_EVER) for name, body in found.items()}
    return {PATH: _file(_PAGE, page, _ALWAYS_ASKED), **files}


def _file(name: str, body: bytes, caching: str) -> ConsoleFile:
    kind = name.rpartition(".")[2]
    return ConsoleFile(body, _TYPES[kind], f'"{_digest(body).hex()[:32]}"', caching)


def _digest(body: bytes) -> bytes:
    return hashlib.sha256(body).digest()
