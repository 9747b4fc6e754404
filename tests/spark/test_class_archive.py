"""The archive of Spark's classes, made by a JVM and used by the next one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from distributary.core.errors import SettingsError
from distributary.spark import JavaHome, find_java, java_environment, make_class_archive

USE = """
import contextlib, sys
from pathlib import Path
from distributary.spark.session import open_session
folder, archive = Path(sys.argv[1]), sys.argv[2]
spark = open_session(
    folder, 1, "local", {}, contextlib.nullcontext(), sockets=folder / "sockets", archive=archive
)
pid = spark.sparkContext._gateway.proc.pid
print(archive in Path(f"/proc/{pid}/maps").read_text())
"""
"""Whether a JVM has mapped the archive."""


def test_a_jvm_maps_the_archive_that_another_has_written(tmp_path: Path) -> None:
    """Both have the options of the pipeline: a JVM with others would ignore it."""
    java = find_java(os.environ)
    made = make_class_archive(java, tmp_path)
    environ = os.environ | java_environment(java, tmp_path / "java")
    used = subprocess.run(
        [sys.executable, "-c", USE, str(tmp_path / "scratch"), str(made)],
        env=environ,
        capture_output=True,
        text=True,
        check=True,
    )
    assert used.stdout.split()[-1] == "True", used.stdout
    assert [path.name for path in made.parent.iterdir()] == [made.name]


def test_a_java_that_writes_none_is_an_error_that_says_so(tmp_path: Path) -> None:
    """One without an archive of its own classes cannot write another."""
    broken = JavaHome(tmp_path / "no-java", 17, True, "JAVA_HOME")
    with pytest.raises(SettingsError, match="has written no archive of classes"):
        make_class_archive(broken, tmp_path)
