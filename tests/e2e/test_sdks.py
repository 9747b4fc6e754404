"""The programs of the guide to SDKs: each publishes to every other, through the whole server."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from kit.ports import free_port
from kit.running_server import RunningServer, wait_until
from kit.sdk_programs import LANGUAGES, Programs

pytestmark = [pytest.mark.spark, pytest.mark.slow]

WAIT_S_MAX = 60.0
ENCODED = "gr%C3%BC%C3%9Fe%20an%20alle"
PLAIN = "gr\u00fc\u00dfe an alle"
DECODES = {"python"}
"""Languages whose SDK decodes header fields of binary mode, as the table of the guide says."""


class Receiver:
    """A receiving program that runs."""

    def __init__(self, programs: Programs, folder: Path) -> None:
        self.port = free_port()
        self.lines = folder / "lines"
        with self.lines.open("wb") as out, (folder / "errors").open("wb") as errors:
            command = [*programs.receive, str(self.port)]
            self.process = subprocess.Popen(command, stdout=out, stderr=errors, cwd=folder)

    def events(self) -> list[list]:
        """What has arrived: id, subject, data; of lines that are written to their ends."""
        whole, _, _ = self.lines.read_bytes().rpartition(b"\n")
        return [json.loads(line) for line in whole.splitlines()]

    def close(self) -> None:
        """End it."""
        self.process.kill()
        self.process.wait()


@pytest.fixture(params=LANGUAGES)
def language(request: pytest.FixtureRequest) -> str:
    """Each of them."""
    name: str = request.param
    return name


@pytest.fixture
def programs(language: str, tmp_path: Path) -> Programs:
    """The two programs of the language."""
    folder = tmp_path / "built"
    folder.mkdir()
    return LANGUAGES[language](folder)


@pytest.fixture
def receiver(programs: Programs, tmp_path: Path) -> Iterator[Receiver]:
    """Its receiving program, running."""
    made = Receiver(programs, tmp_path)
    yield made
    made.close()


def test_programs_of_the_guide_publish_and_receive(
    plain_server: RunningServer, language: str, programs: Programs, receiver: Receiver
) -> None:
    """Structured mode keeps every character in both directions; binary mode as the table says."""
    source = {"filters": [{"exact": {"source": "/shop"}}]}
    for format_ in ("structured", "binary"):
        plain_server.subscribe(
            f"http://127.0.0.1:{receiver.port}/{format_}",
            **source,
            protocolsettings={"format": format_},
        )
    done = subprocess.run(
        [*programs.publish, plain_server.url],
        capture_output=True,
        text=True,
        timeout=WAIT_S_MAX,
        check=False,
    )
    assert (done.stdout.strip(), done.returncode) == ("202", 0), done.stderr
    wait_until(lambda: len(receiver.events()) == 2, WAIT_S_MAX, "both deliveries")
    binary = PLAIN if language in DECODES else ENCODED
    found = receiver.events()
    assert sorted(subject for _, subject, _ in found) == sorted([PLAIN, binary])
    assert [data for _, _, data in found] == [{"total": 12}] * 2
