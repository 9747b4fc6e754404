"""The page "Which command for what": each command of its table runs, each path to read answers."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from kit.ports import free_port
from kit.running_server import RunningServer, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "how-to" / "operate.md"
WAIT_S_MAX = 60.0
COMMAND_S_MAX = 120.0


def rows() -> Iterator[tuple[str, str, str]]:
    """What is wanted, the command, and what is asked over HTTP, of each line of the table."""
    for line in PAGE.read_text("utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| ") and "`distributary" in line:
            command = re.match(r"`distributary ([^`]*)`", cells[1])
            assert command is not None, line
            yield cells[0], command[1], cells[2].strip("`")


@pytest.fixture(scope="module")
def position(plain_server: RunningServer) -> str:
    """Where an event is; the subscription ``orders`` exists, fails, and has a dead letter."""
    body = {
        "sink": f"http://127.0.0.1:{free_port()}/",
        "protocol": "HTTP",
        "filters": [{"exact": {"type": "com.example.order"}}],
        "protocolsettings": {"delivery": {"retry": 0}, "signature": {"scheme": "v1"}},
    }
    fields = {"content-type": "application/json"}
    made = plain_server.request("PUT", "/subscriptions/orders", msgspec.json.encode(body), fields)
    assert made.status == 201, made.body
    event = {
        "ce-specversion": "1.0",
        "ce-id": "1",
        "ce-source": "/s",
        "ce-type": "com.example.order",
    }
    assert plain_server.request("POST", "/events", b"", event).status == 202
    path = "/dead-letters?subscription=orders"
    wait_until(lambda: plain_server.request("GET", path).json(), WAIT_S_MAX, "a dead letter")
    found = plain_server.request("GET", "/events?type=com.example.order&id=1").json()
    return str(found[0]["position"])


def test_every_command_of_the_page_runs(
    plain_server: RunningServer, position: str, tmp_path: Path
) -> None:
    """In the order of the table, as a reader would try them; all are told that fail."""
    environ = os.environ | {
        "DISTRIBUTARY_URL": plain_server.url,
        "DISTRIBUTARY_DATA_DIR": str(plain_server.paths.root),
        "EDITOR": "true",
        "NO_COLOR": "1",
    }
    environ.pop("VISUAL", None)
    failed = []
    for wanted, command, asked in rows():
        words = command.replace("0-0-0", position).split()
        done = subprocess.run(
            [sys.executable, "-m", "distributary.cli", *words],
            cwd=tmp_path,
            env=environ,
            capture_output=True,
            text=True,
            timeout=COMMAND_S_MAX,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        if done.returncode:
            failed.append((wanted, command, done.returncode, done.stdout, done.stderr))
        if asked.startswith("GET "):
            path = asked.removeprefix("GET ").replace("0-0-0", position)
            status = plain_server.request("GET", path).status
            if status != 200:
                failed.append((wanted, asked, status, "", ""))
    plain_server.request("DELETE", "/subscriptions/orders")
    assert failed == []


def test_the_page_has_every_line() -> None:
    """A table without lines would run nothing."""
    assert len(list(rows())) >= 20
