"""What the commands say of themselves, on a terminal of 80 columns."""

import re
import shlex
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

import distributary
from distributary.cli._commands import app

COLUMNS = 80


def _commands() -> dict[tuple[str, ...], Any]:
    """Words of every command -> the command."""
    found: dict[tuple[str, ...], Any] = {}

    def add(words: tuple[str, ...], command: Any) -> None:
        found[words] = command
        for name, inner in getattr(command, "commands", {}).items():
            add((*words, name), inner)

    add((), typer.main.get_command(app))
    return found


COMMANDS = _commands()
ALL = pytest.mark.parametrize("words", COMMANDS, ids=lambda words: " ".join(words) or "app")


def _help(words: tuple[str, ...], option: str = "--help") -> str:
    result = CliRunner().invoke(app, [*words, option], terminal_width=COLUMNS)
    assert result.exit_code == 0
    return result.output


@ALL
def test_help_fits_a_terminal_and_nothing_is_cut(words: tuple[str, ...]) -> None:
    """No line is longer, no word is shortened, and no mark-up is left."""
    text = _help(words)
    assert [line for line in text.splitlines() if len(line) > COLUMNS] == []
    assert "…" not in text
    assert not re.search(r"[a-z,]\.\.\.(\s|$)", text), "a summary is cut"
    assert not re.search(r"\[/?bold\]|\[/\]|\\\[", text)
    assert not re.search(r"\s--?[a-z-]+-$", text, re.MULTILINE), "an option is broken in two"


@ALL
def test_help_names_every_option_whole_and_what_it_takes(words: tuple[str, ...]) -> None:
    """With a word in capitals or the choices, not with the name of a type of Python."""
    text = _help(words)
    for parameter in COMMANDS[words].params:
        for option in parameter.opts:
            if option.startswith("-"):
                assert re.search(rf"(^|[ ,]){re.escape(option)}([ ,]|$)", text, re.MULTILINE)
    assert not re.search(r"<(str|int|bool|path|float|list|int range|float range)\b", text)


def test_help_of_the_server_tells_the_extra_and_the_url() -> None:
    """Square brackets are text here; a URL is no path."""
    text = re.sub(r"\s+", " ", _help(("serve",)))
    assert "Needs the extra distributary[amqp]" in text
    assert "--public-url URL" in text


@ALL
def test_the_short_option_is_the_same(words: tuple[str, ...]) -> None:
    """As everywhere else."""
    assert _help(words, "-h") == _help(words)


def test_the_version_is_an_option_too() -> None:
    """As everywhere else; and nothing but the version."""
    result = CliRunner().invoke(app, ["--version"])
    assert (result.exit_code, result.output) == (0, distributary.__version__ + "\n")


def _examples() -> list[tuple[str, list[str]]]:
    """(example, its words) of every example of our own commands, as it is shown."""
    lines = [
        part
        for words in COMMANDS
        for line in _help(words).replace("\\\n", " ").splitlines()
        if line.startswith("    ")
        for part in re.split(r" [|>] ?", line.strip())
    ]
    ours = [line for line in lines if re.match(r"(DISTRIBUTARY_\w+=\S+ )?distributary \w", line)]
    return [(line, shlex.split(line)) for line in ours]


@pytest.mark.parametrize(("example", "words"), _examples())
def test_an_example_can_be_pasted(example: str, words: list[str]) -> None:
    """It names a command that is there, and its options are that command's."""
    words = words[words.index("distributary") + 1 :]
    name = next(
        path for path in (tuple(words[:2]), tuple(words[:1])) if path in COMMANDS and path != ()
    )
    options = {option for parameter in COMMANDS[name].params for option in parameter.opts}
    assert {word for word in words if word.startswith("--")} <= options, example


def test_examples_are_there() -> None:
    """The test above has something to look at."""
    assert len(_examples()) >= 20


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_complete_commands(shell: str) -> None:
    """What follows ``distributary subscr`` is one of two."""
    variables = {
        "bash": {"COMP_WORDS": "distributary subscr", "COMP_CWORD": "1"},
        "zsh": {"_TYPER_COMPLETE_ARGS": "distributary subscr"},
        "fish": {
            "_TYPER_COMPLETE_ARGS": "distributary subscr",
            "_TYPER_COMPLETE_FISH_ACTION": "get-args",
        },
    }[shell]
    result = CliRunner().invoke(
        app,
        [],
        env={"_DISTRIBUTARY_COMPLETE": f"complete_{shell}", **variables},
        prog_name="distributary",
    )
    for command in ("subscribe", "subscriptions"):
        assert command in result.output
    assert "listen" not in result.output


def test_help_of_serve_says_what_a_setting_takes() -> None:
    """One of a few values is spelled out, and a text that has a form shows an example."""
    text = re.sub(r"\s+", " ", _help(("serve",)))
    assert "--consent auto|never|public|always Which" in text
    assert "It takes networks such as 10.0.0.0/8, separated by commas." in text
    assert "It takes a name." not in text
