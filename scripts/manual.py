"""The manual page and the completion files of the command line, from its own help.

Written by ``scripts/draw_docs.py``; the wheel installs them (pyproject.toml, shared data).
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import typer
from typer.completion import get_completion_script

import distributary
from distributary.cli._commands import app
from distributary.cli._console import EXIT_CODES

ROOT = Path(__file__).resolve().parents[1]

COMPLETE: Final = "_DISTRIBUTARY_COMPLETE"

HEAD = """\
.\\" Written by `make docs` from the help of the commands; do not edit.
.TH DISTRIBUTARY 1 "" "distributary {version}" "User Commands"
.SH NAME
distributary \\- CloudEvents subscription manager and event router
.SH SYNOPSIS
.B distributary
.RI [ OPTIONS ]
.I COMMAND
.RI [ ARGUMENTS ]
"""

TAIL = """\
.SH ENVIRONMENT
.TP
.B DISTRIBUTARY_URL
The server that commands use, in place of \\-\\-url.
.TP
.B DISTRIBUTARY_TOKEN
The API key or token that commands show.
.TP
.B DISTRIBUTARY_NAMESPACE
The tenant whose things are meant.
.TP
.B DISTRIBUTARY_CONFIG
The configuration file of
.BR serve .
.TP
.BI DISTRIBUTARY_ SETTING
Any setting of
.BR serve :
\\-\\-data\\-dir is DISTRIBUTARY_DATA_DIR.
.SH FILES
.TP
.I distributary.toml
Settings of
.BR serve ,
read from the working folder where no other file is named.
.TP
.I distributary\\-data
The data folder, where no other one is named.
.SH SEE ALSO
The folder docs of the source distribution has guides, a reference and the design.
"""


def files() -> dict[Path, str]:
    """Path -> text of every file that is made here."""
    completions = ROOT / "packaging" / "completions"
    return {
        ROOT / "man" / "distributary.1": manual(),
        completions / "distributary.bash": _completion("bash"),
        # As an autoloaded function it has to complete when it is read.
        completions / "_distributary": _completion("zsh") + '\n_distributary_completion "$@"\n',
        completions / "distributary.fish": _completion("fish"),
    }


def _completion(shell: str) -> str:
    script = get_completion_script(prog_name="distributary", complete_var=COMPLETE, shell=shell)
    return script.strip() + "\n"


def manual() -> str:
    """The manual page, in the macros of man(7)."""
    group: Any = typer.main.get_command(app)
    context = group.make_context("distributary", [], resilient_parsing=True)
    parts = [HEAD.format(version=distributary.__version__), ".SH OPTIONS\n"]
    parts += _options(group, context)
    parts.append(".SH COMMANDS\n")
    for path, command, inner in _commands(group, context, "distributary"):
        if getattr(command, "commands", None):
            continue
        usage = " ".join(command.collect_usage_pieces(inner))
        parts.append(f'.SS "{_plain(path.removeprefix("distributary "))}"\n')
        parts.append(f".B {_plain(path)}\n{_line(usage)}\n" if usage else f".B {_plain(path)}\n")
        parts += _prose(command.help or "")
        parts += _options(command, inner)
    parts.append(".SH EXIT STATUS\n")
    for code, means in EXIT_CODES.items():
        parts.append(f".TP\n.B {code}\n{_line(means[0].upper() + means[1:])}.\n")
    return "".join([*parts, TAIL])


def _commands(group: Any, context: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        inner = type(context)(command, info_name=name, parent=context)
        yield f"{path} {name}", command, inner
        if getattr(command, "commands", None):
            yield from _commands(command, inner, f"{path} {name}")


def _options(command: Any, context: Any) -> Iterator[str]:
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record is not None:
            names, says = record
            words = re.sub(r"\s+", " ", says)
            yield f".TP\n.B {_plain(names)}\n{_line(words) or '.br'}\n"


def _prose(text: str) -> Iterator[str]:
    for paragraph in text.split("\n\n"):
        if "\b" in paragraph:
            lines = [_line(line.rstrip()) for line in paragraph.replace("\b", "").splitlines()]
            yield ".PP\n.nf\n" + "\n".join(line for line in lines if line) + "\n.fi\n"
        elif paragraph.strip():
            words = re.sub(r"\s+", " ", paragraph).strip()
            yield f".PP\n{_line(words)}\n"


def _plain(text: str) -> str:
    """*text* without meaning to roff."""
    return text.replace("\\", "\\e").replace("-", "\\-").replace('"', "\\(dq")


def _line(text: str) -> str:
    """*text* as a line of input: one that begins with a control character is text too."""
    plain = _plain(text)
    return f"\\&{plain}" if plain[:1] in {".", "'"} else plain
