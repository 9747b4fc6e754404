"""The archive of the classes that Spark loads: with it a JVM starts with less than half the CPU.

Spark loads some 15,000 classes at each start; loading, verifying and linking them is most of a
start's work. Java can keep them as they stand in memory (class data sharing, JEP 350), in a file
that later JVMs map. It changes how classes get into memory, and nothing that they do. A JVM that
cannot use it (another Java, another Spark) starts without.

``server`` asks for the archive's path; ``cli`` makes it, by a process of its own that loads what
the pipeline loads (``class_loading``). Imports no pyspark. Hides: Java's options.
"""

import contextlib
import hashlib
import importlib.metadata
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from distributary.core.errors import SettingsError
from distributary.core.files import sync_folder
from distributary.spark.java import JavaHome, java_environment

MAKE_S_MAX: Final = 300.0
"""Longest time that making it takes: half a minute of CPU, on a machine that does much else."""
_QUIET: Final = "-Xlog:cds=off -Xlog:cds+dynamic=off"
"""Say nothing about an archive that cannot be used: it only takes longer."""
_LAUNCH_OPTIONS: Final = "SPARK_SUBMIT_OPTS"
"""Environment variable with options of the JVM that PySpark starts."""


def place(java: Path, prefix: Path | None = None) -> Path:
    """Where the archive of the Java at *java* and of the installed Spark lies.

    Beside the installed packages: who can write there can replace Spark itself.
    """
    of = f"{importlib.metadata.version('pyspark')} {java.resolve()}"
    name = f"classes-{hashlib.sha256(of.encode()).hexdigest()[:12]}.jsa"
    return (prefix or Path(sys.prefix)) / "share" / "distributary" / name


def usable(java: JavaHome, prefix: Path | None = None) -> str:
    """The archive for *java*; empty where there is none."""
    path = place(java.path, prefix)
    # Spark splits the options of its JVM at spaces.
    return str(path) if path.is_file() and " " not in str(path) else ""


def options(archive: str) -> str:
    """Options of a JVM that uses *archive*; none where it is empty."""
    return f" -XX:SharedArchiveFile={archive} -Xshare:auto {_QUIET}" if archive else ""


def make(java: JavaHome, prefix: Path | None = None) -> Path:
    """Make the archive, or replace it; returns where it lies. Takes half a minute.

    Raises:
        SettingsError: It cannot be made or written; the message says why.
    """
    target = place(java.path, prefix)
    beside = target.with_suffix(".new")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="distributary-classes-") as folder:
            _dump(java, Path(folder), beside)
        with beside.open("rb") as file:
            os.fsync(file.fileno())  # a JVM believes what the archive holds
        beside.rename(target)
        sync_folder(target.parent)
    except OSError as error:
        raise SettingsError(
            f"cannot write the archive of classes {target}: {error.strerror or error}"
        ) from error
    finally:
        with contextlib.suppress(OSError):
            beside.unlink()
    return target


def _dump(java: JavaHome, folder: Path, target: Path) -> None:
    """Run Spark once in *folder*; its JVM writes the archive as it ends."""
    target.unlink(missing_ok=True)
    environ = os.environ | java_environment(java, folder / "java")
    environ[_LAUNCH_OPTIONS] = f"-XX:ArchiveClassesAtExit={target} {_QUIET}"
    command = [sys.executable, "-m", "distributary.spark.class_loading", str(folder)]
    try:
        ran = subprocess.run(
            command, env=environ, capture_output=True, text=True, timeout=MAKE_S_MAX, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise SettingsError(f"Spark did not end within {MAKE_S_MAX:g} s") from error
    if ran.returncode or not target.exists():
        raise SettingsError(
            f"Java {java.version} at {java.path} has written no archive of classes:"
            f" {ran.stderr.strip()[-500:] or 'it says nothing'}"
        )
