"""The session of docs/how-to/knative-with-kubectl.md, pasted block by block into a shell.

A ``text`` block right behind a ``console session`` block is what that prints; any other is what
the sink shows by then. ``...`` stands for anything; how many blanks there are does not count.
"""

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from distributary.knative.kinds import BROKER, CHANNEL, SERVICE, SUBSCRIPTION, TRIGGER
from kit.knative_client import KnativeClient
from kit.ports import free_port
from kit.running_server import clean_environ, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "how-to" / "knative-with-kubectl.md").read_text("utf-8")

BLOCK = re.compile(
    r"^```console session\n(?P<commands>.*?)^```$(?:\n\n```text\n(?P<output>.*?)^```$)?"
    r"|^```text\n(?P<shown>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
SHOWN_S_MAX = 30.0
"""Longest wait for an event at the sink."""

COMMANDS_S_MAX = 120.0
"""Longest wait for the commands of one block."""


def _matches(shown: str, printed: str) -> bool:
    """Whether what was *printed* is what the page has *shown*."""
    expected = re.escape(" ".join(shown.split()))
    anything = re.sub(r"(\\ )?\\\.\\\.\\\.(\\ )?", ".*", expected)
    return re.fullmatch(anything, " ".join(printed.split())) is not None


@pytest.fixture
def sink(tmp_path: Path) -> Iterator[tuple[int, list[str]]]:
    """``distributary listen``: its port, and the lines that it has shown so far."""
    port = free_port()
    command = [sys.executable, "-m", "distributary.cli", "listen", "--port", str(port)]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=clean_environ(), cwd=tmp_path
    )
    lines: list[str] = []
    reader = threading.Thread(target=lambda: lines.extend(process.stdout))
    reader.start()
    yield port, lines
    process.terminate()
    reader.join()
    process.wait()
    process.stdout.close()


@pytest.fixture
def default(server) -> Iterator[None]:
    """The namespace ``default``, left as it was also where the page does not get to its end."""
    yield
    api = KnativeClient(server, "default")
    for kind in (TRIGGER, SUBSCRIPTION, CHANNEL, SERVICE):
        api.send("DELETE", api.path(kind))
    api.send("DELETE", api.path(BROKER, "shop"))


@pytest.mark.usefixtures("default")
def test_the_session_of_the_guide_works_as_it_is_printed(kubectl, server, sink, tmp_path):
    """All blocks in order, with each kubectl; only ports are other ones than on the page."""
    port, lines = sink
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "kubectl").symlink_to(kubectl.program)
    environ = clean_environ() | {"HOME": str(tmp_path), "DISTRIBUTARY_URL": server.url}
    places = (str(tmp_path / "bin"), str(Path(sys.executable).parent), environ["PATH"])
    environ["PATH"] = os.pathsep.join(places)
    page = PAGE.replace("127.0.0.1:8080", f"127.0.0.1:{server.port}")
    page = page.replace("127.0.0.1:9000", f"127.0.0.1:{port}")
    blocks = list(BLOCK.finditer(page))
    assert len(blocks) >= 10
    for block in blocks:
        if block["commands"] is None:
            shown = block["shown"]
            wait_until(
                lambda shown=shown: any(_matches(shown, line) for line in tuple(lines)),
                SHOWN_S_MAX,
                f"the sink shows {shown}; it has shown {lines}",
            )
            continue
        # What a block exports is there for the next one, as in one terminal.
        session = f". ./.exported\n{block['commands']}export -p > .exported\n"
        (tmp_path / ".exported").touch()
        done = subprocess.run(
            ["sh", "-e", "-c", session],
            cwd=tmp_path,
            env=environ,
            capture_output=True,
            text=True,
            check=False,
            timeout=COMMANDS_S_MAX,
        )
        assert done.returncode == 0, (block["commands"], done.stdout, done.stderr)
        assert _matches(block["output"] or "", done.stdout), (block["output"], done.stdout)
