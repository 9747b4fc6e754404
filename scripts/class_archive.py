"""Archive the classes that Spark loads, so that each JVM of a test run starts with half the work.

    python scripts/class_archive.py

A server that is started once and stopped in order leaves the archive (class data sharing, JEP 350)
in the virtual environment. ``run_tests.py`` names it to every JVM; one that cannot use it (another
Java, another Spark) ignores it. It changes how classes get into memory, and nothing that they do.
"""

import hashlib
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pyspark

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "tests"))

from kit.running_server import (  # noqa: E402 - found by the line above
    Role,
    RunningServer,
    ServerError,
    clean_environ,
    wait_until,
)

OPTIONS = "SPARK_SUBMIT_OPTS"
"""Environment variable: options of the JVM that PySpark starts, beside those of the session."""

QUIET = "-Xshare:auto -Xlog:cds=off -Xlog:cds+dynamic=off"
"""Use it or do without; say nothing, since tests read what a server prints."""

WRITTEN_S_MAX = 120.0
"""Longest wait for the archive, which the JVM writes as it ends."""


def archive() -> Path:
    """Where the archive of this Spark and this Java lies."""
    of = f"{pyspark.__version__} {os.environ.get('JAVA_HOME', '')}"
    return Path(sys.prefix) / f"classes-{hashlib.sha256(of.encode()).hexdigest()[:8]}.jsa"


def options() -> dict[str, str]:
    """Environment of programs whose JVMs are to use the archive; nothing where there is none."""
    if not archive().exists():
        return {}
    given = os.environ.get(OPTIONS, "")
    return {OPTIONS: f"{given} -XX:SharedArchiveFile={archive()} {QUIET}".strip()}


def make() -> None:
    """Start a server, stop it, and keep what its JVM has loaded.

    Raises:
        ServerError, OSError: No archive came of it.
    """
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "classes.jsa"
        environ = clean_environ() | {OPTIONS: f"-XX:ArchiveClassesAtExit={made} -Xlog:cds=off"}
        with RunningServer(Path(folder) / "data", environ=environ) as server:
            (jvm,) = server.processes(Role.JVM)
            server.stop(WRITTEN_S_MAX)
            wait_until(lambda: not jvm.is_running(), WRITTEN_S_MAX, "the JVM ends")
        if not made.exists():
            raise ServerError("the JVM has left no archive")
        beside = archive().with_suffix(".new")
        subprocess.run(["cp", made, beside], check=True)
        beside.rename(archive())


def main() -> int:
    """Make it where it is missing; the exit code says whether it is there."""
    if archive().exists():
        return 0
    began_s = time.monotonic()
    try:
        make()
    except (ServerError, OSError) as error:
        print(f"no archive of classes, JVMs start slower: {error}", file=sys.stderr)
        return 1
    print(f"==> classes of Spark archived in {time.monotonic() - began_s:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
