"""The server under the restrictions of its systemd unit, as far as they go without systemd."""

import base64
import os
import platform
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kit.ports import free_port
from kit.running_server import RunningServer, clean_environ, wait_until
from kit.unit_sandbox import lacking

pytestmark = [pytest.mark.slow]

ROOT = Path(__file__).parents[2]
UNIT = ROOT / "packaging" / "distributary.service"
ARRIVE_S_MAX = 60.0


@pytest.fixture(autouse=True)
def able() -> None:
    """Skip, and say so, where the restrictions cannot be applied."""
    if reason := lacking():
        pytest.skip(f"NOT RUN: the unit's restrictions: {reason}")


@pytest.fixture
def state(tmp_path: Path) -> Iterator[Path]:
    """A state directory as systemd makes it, with a key beside it."""
    (tmp_path / "credentials.key").write_text(base64.b64encode(os.urandom(32)).decode())
    folder = tmp_path / "state"
    folder.mkdir(mode=0o700)
    return folder


def _launcher(unit: Path, state: Path) -> list[str]:
    key = state.with_name("credentials.key")
    return [sys.executable, "-m", "kit.unit_sandbox", str(unit), str(state), str(key), "--"]


def _environ() -> dict[str, str]:
    environ = clean_environ()
    places = [str(ROOT / "tests"), environ.get("PYTHONPATH", "")]
    return environ | {"PYTHONPATH": os.pathsep.join(filter(None, places))}


def _run(unit: Path, state: Path, *program: str) -> subprocess.CompletedProcess[str]:
    command = [*_launcher(unit, state), *program]
    return subprocess.run(
        command, check=False, capture_output=True, text=True, env=_environ(), cwd=ROOT
    )


CALL = """
import ctypes, os, sys
if ctypes.CDLL(None, use_errno=True).syscall(*map(int, sys.argv[1:])) == -1:
    sys.exit(os.strerror(ctypes.get_errno()))
"""
DENIED = "Operation not permitted"


@pytest.mark.parametrize("path", ["/etc/probe", "/usr/probe", "/var/lib/probe"])
def test_nothing_else_can_be_written(state: Path, path: str) -> None:
    """Else the test of the server would not show that it needs nothing else."""
    ran = _run(UNIT, state, sys.executable, "-c", f"open({path!r}, 'w')")
    assert "Read-only file system" in ran.stderr


@pytest.mark.skipif(platform.machine() != "x86_64", reason="NOT RUN: numbers of x86-64")
@pytest.mark.parametrize(
    "call",
    [(101, 0, 0), (105, 1), (272, 0x10000000), (41, 17, 2, 0), (41, 38, 5, 0)],
    ids=["ptrace", "setuid", "unshare a user namespace", "packet socket", "kernel crypto socket"],
)
def test_what_the_unit_forbids_fails(state: Path, call: tuple[int, ...]) -> None:
    """By the filter: likewise."""
    ran = _run(UNIT, state, sys.executable, "-c", CALL, *map(str, call))
    assert (ran.returncode, ran.stderr.strip()) == (1, DENIED)


def test_what_the_server_needs_is_left(state: Path) -> None:
    """It may write its state and /tmp, privately, and read the key that systemd hands over."""
    program = (
        "import os, pathlib; pathlib.Path('own').touch(); pathlib.Path('/tmp/own').touch();"
        "print(oct(os.stat('own').st_mode), len(os.listdir('/tmp')), os.nice(19),"
        "len(open(os.environ['DISTRIBUTARY_CREDENTIAL_KEY_FILE']).read()))"
    )
    ran = _run(UNIT, state, sys.executable, "-c", program)
    assert ran.returncode == 0, ran.stderr
    mode, _, nice, characters = ran.stdout.split()
    assert (mode, nice, characters) == ("0o100600", "19", "44")


def test_java_needs_memory_that_it_writes_and_executes(state: Path, tmp_path: Path) -> None:
    """The one line that is looser than it could be: with the strict one no Java starts."""
    java = Path(os.environ.get("JAVA_HOME") or "/usr") / "bin" / "java"
    assert _run(UNIT, state, str(java), "-version").returncode == 0
    strict = tmp_path / "strict.service"
    before, after = "MemoryDenyWriteExecute=no", "MemoryDenyWriteExecute=yes"
    assert before in UNIT.read_text()
    strict.write_text(UNIT.read_text().replace(before, after))
    assert _run(strict, state, str(java), "-version").returncode != 0


@pytest.mark.spark
def test_the_server_works_under_its_unit(state: Path) -> None:
    """It starts, seals with the key that it was handed, delivers, and stops in order.

    Every process of it runs under the filter, without a capability.
    """
    server = RunningServer(state, environ=_environ(), launcher=_launcher(UNIT, state))
    with server:
        for process in server.tree():
            try:
                status = Path(f"/proc/{process.pid}/status").read_text()
                limits = Path(f"/proc/{process.pid}/limits").read_text()
            except (FileNotFoundError, ProcessLookupError):
                continue  # one that lives for a moment
            fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
            if fields["State"].startswith("Z"):
                continue  # likewise: it has ended, and has no mask any more
            assert fields["Seccomp"] == "2"
            assert fields["NoNewPrivs"] == "1"
            assert int(fields["CapBnd"], 16) == int(fields["CapEff"], 16) == 0
            assert fields["Umask"] == "0077"
            assert re.search(r"^Max core file size +0 +0 ", limits, re.MULTILINE)
        sink = free_port()
        listen = [sys.executable, "-m", "distributary.cli", "listen", "--port", str(sink)]
        with subprocess.Popen(
            listen, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=_environ()
        ) as listener:
            try:
                server.subscribe(
                    f"http://127.0.0.1:{sink}",
                    sinkcredential={
                        "credentialtype": "PLAIN", "identifier": "me", "secret": "x" * 20
                    },
                )  # fmt: skip
                fields = {"ce-id": "1", "ce-type": "a.b", "ce-source": "/x"}
                fields |= {"ce-specversion": "1.0", "content-type": "text/plain"}
                assert server.request("POST", "/events", b"hello", fields).status == 202
                wait_until(
                    lambda: server.metric("delivered_total") == 1,
                    ARRIVE_S_MAX,
                    "the event is delivered",
                )
            finally:
                listener.kill()
        assert not (state / "credentials.key").exists()
        assert server.stop() == 0
    assert "process-ended" not in server.log_tail()
