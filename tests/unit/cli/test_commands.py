import sys

import pytest
from typer.testing import CliRunner

import distributary
from distributary.cli import _commands
from distributary.cli._commands import app
from distributary.cli._console import EXIT_CODES
from distributary.server import settings

COMMANDS = (
    *("serve", "send", "subscribe", "subscriptions", "listen", "filter", "kubeconfig", "demo"),
    *("archive-classes", "version"),
)


def run_main(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    """The whole command line in this process; its exit code."""
    monkeypatch.setattr(sys, "argv", ["distributary", *words])
    with pytest.raises(SystemExit) as caught:
        _commands.main()
    code = caught.value.code
    assert isinstance(code, int)
    return code


@pytest.mark.parametrize("words", [(), *((command,) for command in COMMANDS)], ids=str)
def test_every_command_explains_itself(words: tuple[str, ...]) -> None:
    """--help ends with 0; the first page names every command and the exit codes."""
    result = CliRunner().invoke(app, [*words, "--help"])
    assert result.exit_code == 0
    if not words:
        assert all(command in result.output for command in COMMANDS)
        assert all(f"{code:<3}  {means}" in result.output for code, means in EXIT_CODES.items())


def test_serve_has_a_flag_for_every_setting() -> None:
    """A new setting cannot be forgotten on the command line."""
    result = CliRunner().invoke(app, ["serve", "--help"], terminal_width=200)
    for row in settings.settings_table():
        assert row.flag in result.output


def test_version_is_the_package_version() -> None:
    """And nothing else."""
    assert CliRunner().invoke(app, ["version"]).output == distributary.__version__ + "\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["serve", "--port", "x", "--epoch-s", "0"], ["--port: expected", "--epoch-s: expected"]),
        (["serve", "--no-auth", "--port", "x"], ["--port: expected"]),
        (["serve", "--config", "missing.toml"], ["no configuration file", "missing.toml"]),
        (["send", "--url", "nowhere"], ["Expected a URL such as"]),
        (["send", "--data", "x", "--data-file", "y"], ["not both"]),
        (["send", "--data-file", "missing.bin"], ["missing.bin", "No such file"]),
        (["send", "missing.jsonl"], ["missing.jsonl", "Name a file of events"]),
        (["send", "--extension", "x"], ["expected name=text"]),
        (["send", "--id", ""], ["no event"]),
        (["subscribe", "--sink", "x", "--filter", "{"], ["is not JSON"]),
        (["listen", "--status", "1"], ["503:0.3"]),
        (["listen", "--delay", "soon"], ["--delay", "30s, 500ms, 14d or PT30S"]),
        (["listen", "--delay", "-1s"], ["--delay", "cannot be negative"]),
        (["listen", "--delay", "2h"], ["delay_s", "0 to 3600"]),
        (["send", "--timeout", "soon"], ["--timeout", "30s, 500ms, 14d or PT30S"]),
        (["send", "--timeout", "0"], ["--timeout", "at least 0.1s"]),
    ],
)
def test_what_cannot_be_used_ends_with_two_and_says_why(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    said: list[str],
) -> None:
    """One readable message, no traceback, exit code 2."""
    assert run_main(monkeypatch, *words) == 2
    shown = capsys.readouterr().err
    for text in said:
        assert text in shown
    assert "Traceback" not in shown


def test_messages_have_no_colours_where_there_is_no_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Logs and pipes get plain text."""
    run_main(monkeypatch, "send", "--url", "nowhere")
    assert "\x1b" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("send", "--mode", "foo"), "'foo' is not one of 'binary', 'structured', 'batch'."),
        (("listen", "--port", "99999"), "must be less than or equal to 65535"),
    ],
)
def test_a_value_that_cannot_be_is_refused_in_plain_words(
    words: tuple[str, ...], says: str
) -> None:
    """Without those of the library that checks it."""
    ended = CliRunner().invoke(app, words)
    assert ended.exit_code == 2
    assert f": {says}" in " ".join(ended.stderr.split())
    assert "Value error" not in ended.stderr
