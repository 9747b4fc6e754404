"""``distributary filter`` as a process: pipes, and files that are larger than what is kept."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

FILTER = (sys.executable, "-m", "distributary.cli", "filter")


def _event(number: int) -> bytes:
    event = {"specversion": "1.0", "id": str(number), "source": "/s", "type": f"t{number % 4}"}
    return json.dumps(event).encode()


@pytest.mark.parametrize("shape", ["lines", "array"])
def test_events_from_a_pipe_are_tried_one_by_one(shape: str) -> None:
    """Whichever shape they have; the exit code is that of the expectation."""
    events = [_event(number) for number in range(2_000)]
    text = b"\n".join(events) if shape == "lines" else b"[" + b",\n".join(events) + b"]"
    words = [*FILTER, "-", "--sql", "type IN ('t1', 't2')", "--json", "--expect", "all"]
    done = subprocess.run(words, input=text, capture_output=True, check=False)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["matches"] for line in lines] == [n % 4 in {1, 2} for n in range(2_000)]
    assert b"1,000 of 2,000 events pass" in done.stderr
    assert done.returncode == 1


def test_who_reads_the_output_may_go(tmp_path: Path) -> None:
    """No traceback, as of any program before ``head``."""
    path = tmp_path / "events.jsonl"
    path.write_bytes(b"\n".join(_event(number) for number in range(20_000)))
    with subprocess.Popen(
        [*FILTER, str(path), "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        said = process.stderr.read()
    assert b"Traceback" not in said
