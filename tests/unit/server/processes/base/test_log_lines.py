"""Lines of the log as people see them."""

import io
import json

import pytest

from distributary.server.processes.base.logging import Lines

HOSTILE = "\x1b]0;pwned\x07\x1b[2Jx\x9b1m\x7f\r\nforged"
BARE = "\x1b]0;pwned\x07\x1b[2Jx\x7f\x9b"
HARMLESS = r"\x1b]0;pwned\x07\x1b[2Jx\x9b1m\x7f\x0d\x0aforged"


@pytest.fixture
def outs():
    """Where lines for people go, and those of other programs."""
    return io.StringIO(), io.StringIO()


@pytest.mark.parametrize("value", [BARE, HOSTILE, [BARE], {BARE: BARE}], ids=repr)
def test_what_others_said_moves_no_cursor(outs, value):
    """Words of brokers and sinks come out as one line, without anything that a terminal obeys."""
    Lines(outs[0], "console", outs[1]).write(json.dumps({"event": "x", "fault": value}))
    line = outs[0].getvalue()
    assert "pwned" in line
    assert line.endswith("\n")
    assert [one for one in line[:-1] if not one.isprintable()] == []


def test_every_control_character_is_shown_as_its_number(outs):
    """Nothing is left out: it may be what is wrong."""
    Lines(outs[0], "console", outs[1]).write(json.dumps({"event": "x", "fault": HOSTILE}))
    assert HARMLESS in outs[0].getvalue().replace("\\\\", "\\")


def test_lines_of_the_jvm_move_no_cursor(outs):
    """They stand in a file that people look at; tabs of stack traces stay."""
    Lines(outs[0], "json", outs[1]).write("\tat \x1b[2Jevil\x9b\n")
    assert outs[1].getvalue() == "\tat \\x1b[2Jevil\\x9b\n"


def test_a_stack_trace_keeps_its_lines(outs):
    """They are ours; what an error says in them is not."""
    Lines(outs[0], "console", outs[1]).write(
        json.dumps({"event": "x", "exception": "Traceback:\n  a\nError: \x1b[2J"})
    )
    assert outs[0].getvalue().splitlines()[1:] == ["Traceback:", "  a", r"Error: \x1b[2J"]


def test_people_are_shown_no_field_without_a_value(outs):
    """An address that is not served is no news."""
    Lines(outs[0], "console", outs[1]).write(json.dumps({"event": "x", "amqp": None, "port": 1}))
    assert "amqp" not in outs[0].getvalue()
    assert "port" in outs[0].getvalue()
