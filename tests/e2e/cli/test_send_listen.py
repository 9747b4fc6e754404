import contextlib
import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from distributary.cli import ledger as ledgers

pytestmark = pytest.mark.slow

CLI = (sys.executable, "-m", "distributary.cli")


@contextlib.contextmanager
def listening(*options: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """A sink in a process of its own, and its URL; stopped with SIGTERM."""
    process = subprocess.Popen(
        [*CLI, "listen", "--port", "0", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        found = re.search(r"http://\S+", process.stderr.readline())
        assert found is not None
        yield found[0].rstrip("/"), process
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)


def run(*words: str, text: str | None = None) -> subprocess.CompletedProcess[str]:
    """One command to its end."""
    return subprocess.run([*CLI, *words], input=text, capture_output=True, text=True, check=False)


def test_what_is_sent_arrives_and_both_ledgers_agree(tmp_path: Path) -> None:
    """A hundred events in each mode; payload and attributes are the same on both sides."""
    sent, got = tmp_path / "sent.jsonl", tmp_path / "got.jsonl"
    with listening("--quiet", "--ledger", str(got)) as (url, _):
        for mode in ("binary", "structured", "batch"):
            words = ["send", "--url", url, "--mode", mode, "--repeat", "100", "--id", mode]
            words += ["--data", '{"x":  1.50}', "--subject", 'ä "%', "--ledger", str(sent)]
            done = run(*words)
            assert done.returncode == 0, done.stderr
            assert "100 acknowledged" in done.stderr
    (tmp_path / "routes.json").write_text('{"all": {}}')
    checker = (sys.executable, "-m", "distributary.testing.check_ledgers", "--sent", str(sent))
    more = ("--routes", str(tmp_path / "routes.json"), "--delivered", f"all={got}")
    checked = subprocess.run([*checker, *more], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert len(list(ledgers.read_arrivals(got))) == 300


def test_refusals_are_shown_counted_and_written_down(tmp_path: Path) -> None:
    """Exit code 1, the state in the ledger, and entries that are no events named."""
    ledger = tmp_path / "sent.jsonl"
    event = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}
    text = json.dumps(event) + "\nrubbish\n"
    with listening("--quiet", "--status", "422") as (url, _):
        done = run("send", "-", "--url", url, "--ledger", str(ledger), text=text)
    assert done.returncode == 1
    assert "entry 2 is no event" in done.stderr
    assert "0 acknowledged, 1 refused, 1 unreadable" in done.stderr
    assert [(s.state, s.status) for s in ledgers.read_sent(ledger)] == [("refused", 422)]


def test_a_flapping_sink_gets_everything_in_the_end() -> None:
    """503 to the first five: they are retried until they are taken."""
    with listening("--quiet", "--fail-first", "5") as (url, _):
        done = run("send", "--url", url, "--repeat", "20")
    assert done.returncode == 0
    assert "20 acknowledged, 5 retries" in done.stderr


@pytest.mark.parametrize("option", ["--hang", "--slow-head", "--slow-body", "--endless-body"])
def test_a_hostile_sink_costs_no_more_than_the_timeout(option: str) -> None:
    """The sender gives up, says unknown, and ends with 3: no answer at all."""
    with listening("--quiet", option) as (url, _):
        done = run("send", "--url", url, "--timeout", "0.5", "--retry-for", "0")
    assert done.returncode == 3
    assert "1 unknown (may have been stored)" in done.stderr


def test_arrivals_are_shown_as_json_lines() -> None:
    """One line an event, for other programs."""
    with listening("--json") as (url, process):
        assert run("send", "--url", url, "--type", "a.b", "--data", "x").returncode == 0
        assert process.stdout is not None
        line = json.loads(process.stdout.readline())
    assert (line["status"], line["mode"], line["data"]) == (200, "binary", "x")
    assert line["attributes"]["type"] == "a.b"


def test_a_taken_port_is_said_and_ends_with_two() -> None:
    """And what to do about it."""
    with listening("--quiet") as (url, _):
        done = run("listen", "--port", url.rpartition(":")[2])
    assert done.returncode == 2
    assert "--port 0 takes a free one" in done.stderr


@pytest.mark.parametrize("words", [["subscriptions", "list"], ["subscribe", "--sink", "http://x"]])
def test_without_a_server_the_hint_says_how_to_start_it(words: list[str]) -> None:
    """Exit code 3."""
    done = run(*words, "--url", "http://127.0.0.1:1")
    assert done.returncode == 3
    assert "Start it with: distributary serve" in done.stderr


def test_no_command_but_serve_loads_spark() -> None:
    """The command line starts in a fraction of a second."""
    program = (
        "import sys, distributary.cli; sys.exit(any(m.startswith('pyspark') for m in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def _first_line(*words: str) -> str:
    """What a command says first on standard error, long before its end; then it is interrupted."""
    with subprocess.Popen([*CLI, *words], stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        running = process.poll() is None
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert running
    return line


def test_send_says_at_once_that_nobody_answers_and_goes_on_trying() -> None:
    """Nobody waits half a minute for the first word."""
    said = _first_line("send", "--url", "http://127.0.0.1:1", "--retry-for", "5m")
    assert "no server answers at 127.0.0.1:1" in said
    assert "for 300 s" in said


def test_send_says_that_a_server_is_silent() -> None:
    """It takes the connection, and answers nothing."""
    with listening("--hang") as (url, _):
        assert "no answer yet" in _first_line("send", "--url", url, "--timeout", "5m")


def test_an_interrupted_send_says_what_it_had_sent(tmp_path: Path) -> None:
    """The count of what was acknowledged is not lost with the bar; exit code 130."""
    sent = tmp_path / "sent.jsonl"
    with listening("--quiet") as (url, _):
        words = ["send", "--url", url, "--repeat", "1000000", "--ledger", str(sent)]
        with subprocess.Popen([*CLI, *words], stderr=subprocess.PIPE, text=True) as process:
            while not sent.exists() or '"acked"' not in sent.read_text():
                assert process.poll() is None
                time.sleep(0.01)
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert "interrupted" in said
    (count,) = re.findall(r"([\d,]+) acknowledged", said)
    acked = [line for line in sent.read_text().splitlines() if json.loads(line)["state"] == "acked"]
    assert int(count.replace(",", "")) == len(acked) > 0


def test_a_send_from_a_silent_pipe_is_interrupted_at_once() -> None:
    """Whoever writes into it need not end first, nor say one more word."""
    words = [*CLI, "send", "-", "--url", "http://127.0.0.1:1"]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdin=pipe, stderr=pipe, text=True) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.write("{}\n")
        process.stdin.flush()
        assert "entry 1 is no event" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
        assert "interrupted" in process.stderr.read()
