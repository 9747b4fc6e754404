"""Where the archive of Spark's classes lies, and when a JVM is told of it."""

from pathlib import Path

import pytest

from distributary.core.errors import SettingsError
from distributary.spark import JavaHome, class_archive, make_class_archive, usable_class_archive
from distributary.spark.session import session_conf

JAVA = JavaHome(Path("/opt/java-17"), 17, True, "JAVA_HOME")
OPTIONS = "spark.driver.extraJavaOptions"


def test_each_java_has_an_archive_of_its_own(tmp_path: Path) -> None:
    """A JVM ignores the archive of another one, and would start slowly for ever."""
    here = class_archive.place(JAVA.path, tmp_path)
    assert here.is_relative_to(tmp_path)
    assert class_archive.place(Path("/opt/java-21"), tmp_path) != here
    assert class_archive.place(JAVA.path, tmp_path) == here


def test_a_jvm_is_told_of_an_archive_that_exists(tmp_path: Path) -> None:
    """It starts as before where nobody has made one."""
    assert usable_class_archive(JAVA, tmp_path) == ""
    assert "SharedArchiveFile" not in session_conf(tmp_path, 1)[OPTIONS]
    path = class_archive.place(JAVA.path, tmp_path)
    path.parent.mkdir(parents=True)
    path.write_bytes(b"classes")
    assert usable_class_archive(JAVA, tmp_path) == str(path)
    words = session_conf(tmp_path, 1, str(path))[OPTIONS].split()
    assert f"-XX:SharedArchiveFile={path}" in words
    assert "-Xshare:auto" in words  # a JVM that cannot use it does without


def test_a_path_that_spark_would_split_is_not_used(tmp_path: Path) -> None:
    """Options of a JVM are one text, divided at spaces."""
    prefix = tmp_path / "my programs"
    path = class_archive.place(JAVA.path, prefix)
    path.parent.mkdir(parents=True)
    path.write_bytes(b"classes")
    assert usable_class_archive(JAVA, prefix) == ""


def test_a_folder_that_cannot_be_written_is_an_error_with_its_path(tmp_path: Path) -> None:
    """The packages of the system belong to the system."""
    (tmp_path / "share").write_text("no folder")
    with pytest.raises(SettingsError, match=r"cannot write the archive of classes .*share"):
        make_class_archive(JAVA, tmp_path)
