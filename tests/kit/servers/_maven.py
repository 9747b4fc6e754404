"""Artefacts from Maven Central, kept between runs: fetched once, and verified whenever used."""

import hashlib
import os
import urllib.request
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, NamedTuple

from kit.servers._base import ServerNotHadError

REPOSITORY: Final = "https://repo.maven.apache.org/maven2"

FETCHES_MAX: Final = 6
"""Artefacts that are fetched at the same time."""

ANSWER_S_MAX: Final = 60.0
"""Longest silence of the repository."""


class Artefact(NamedTuple):
    """One jar, and what it must be.

    Attributes:
        group: Such as ``org.apache.kafka``.
        name: Such as ``kafka-clients``.
        version: Such as ``4.1.1``.
        sha256: Of its bytes, hexadecimal.
        suffix: What its name ends with.
    """

    group: str
    name: str
    version: str
    sha256: str
    suffix: str = ".jar"

    @property
    def file_name(self) -> str:
        """Its name in a folder of artefacts."""
        return f"{self.name}-{self.version}{self.suffix}"

    @property
    def url(self) -> str:
        """Where it is."""
        folder = f"{self.group.replace('.', '/')}/{self.name}/{self.version}"
        return f"{REPOSITORY}/{folder}/{self.file_name}"


def listed(path: Path) -> list[Artefact]:
    """The artefacts of a list: ``group:name:version SHA-256`` in each line, ``#`` for comments."""
    artefacts = []
    for line in path.read_text().splitlines():
        if line and not line.startswith("#"):
            coordinates, sha256 = line.split()
            group, name, version = coordinates.split(":")
            artefacts.append(Artefact(group, name, version, sha256))
    return artefacts


def jars(name: str, artefacts: Sequence[Artefact]) -> Path:
    """A folder that holds the jars, in the user's cache; fetches those that are not there.

    Args:
        name: Of the folder: program and version.
        artefacts: What belongs there.

    Raises:
        ServerNotHadError: One cannot be fetched, or is not what it must be.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "distributary-tests" / name
    folder.mkdir(parents=True, exist_ok=True)
    missing = [each for each in artefacts if not _whole(folder / each.file_name, each.sha256)]
    with ThreadPoolExecutor(FETCHES_MAX) as threads:
        for _ in threads.map(lambda each: _fetch(each, folder), missing):
            pass
    return folder


def _whole(path: Path, sha256: str) -> bool:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest() == sha256
    except FileNotFoundError:
        return False


def _fetch(artefact: Artefact, folder: Path) -> None:
    try:
        with urllib.request.urlopen(  # noqa: S310 - its scheme is that of REPOSITORY
            artefact.url, timeout=ANSWER_S_MAX
        ) as answer:
            content = answer.read()
    except OSError as error:  # urllib's own errors are among them
        raise ServerNotHadError(f"{artefact.url} cannot be fetched: {error}") from error
    if hashlib.sha256(content).hexdigest() != artefact.sha256:
        raise ServerNotHadError(f"{artefact.url} is not what it was: its SHA-256 differs")
    part = folder / f"{artefact.file_name}.{os.getpid()}"
    part.write_bytes(content)
    part.rename(folder / artefact.file_name)
