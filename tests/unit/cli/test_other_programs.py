"""Commands whose request reaches another program, or whose words and files are no text."""

import sys
from collections.abc import Callable

import pytest

from distributary.cli import _api, _http, main

COMMANDS = [
    ("subscriptions", "pause", "a"),
    ("subscriptions", "disable", "a"),
    ("subscriptions", "delete", "-y", "a"),
    ("subscriptions", "list"),
    ("subscriptions", "status", "a"),
    ("subscriptions", "retry", "a"),
    ("dead-letters", "list"),
    ("dead-letters", "redrive", "--all"),
    ("runs", "list"),
    ("runs", "cancel", "x"),
    ("key", "list"),
    ("whoami",),
    ("status",),
]
ANSWERS_NOTHING = {"pause", "disable", "delete"}
JSON = "application/json"

Run = Callable[..., tuple[int, str, str]]


class Other:
    """Answers everything alike."""

    def __init__(self) -> None:
        self.answer = _http.Response(200, {"content-type": "text/html"}, b"<html>Sign in")

    def client(self, _address: object) -> "Other":
        """The client, which is the program itself."""
        return self

    async def request(self, *_said: object) -> _http.Response:
        """The one answer."""
        return self.answer

    def close(self) -> None:
        """Nothing."""


@pytest.fixture
def other(monkeypatch: pytest.MonkeyPatch) -> Other:
    """In place of the network."""
    made = Other()
    monkeypatch.setattr(_api, "Client", made.client)
    return made


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command: exit code, standard output, standard error on one line."""

    def run(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["distributary", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        told = capsys.readouterr()
        return int(ended.value.code or 0), told.out, " ".join(told.err.split())

    return run


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_the_answer_of_another_program_is_no_success(other: Other, run: Run, words) -> None:
    """A proxy's page to sign in has status 200: nothing was done."""
    assert isinstance(other, Other)
    code, out, err = run(*words)
    assert (code, out) == (3, "")
    assert "no distributary server answered: the answer is text/html" in err


@pytest.mark.parametrize("body", [b"{}", b"[]", b"[1]", b"null", b'"x"', b"\xff", b'{"a": "\xff"}'])
@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_json_of_another_program_is_told_as_such(other: Other, run: Run, words, body) -> None:
    """It has other members than a command needs, or none."""
    other.answer = _http.Response(200, {"content-type": JSON}, body)
    code, _, err = run(*words)
    if body == b"{}" and ANSWERS_NOTHING & set(words):
        assert code == 0  # what these need is the status alone
    elif body == b"[]" and "list" in words:
        assert code == 0  # an empty list
    else:
        assert (code, "no distributary server answered: " in err) == (3, True)


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (
            (302, {"location": "http://login.example/"}),
            "302 it leads to http://login.example/ Name",
        ),
        ((401, {}), "401 the server refused Show who you are"),
        ((500, {}), "500 the server failed"),
    ],
)
@pytest.mark.parametrize("words", [("whoami",), ("subscriptions", "delete", "-y", "a")])
def test_a_refusal_says_what_to_do(other: Other, run: Run, words, answer, told) -> None:
    """Whichever command meets it, and though it has no body."""
    other.answer = _http.Response(*answer, b"")
    code, _, err = run(*words)
    assert (code, told in err) == (1, True)


@pytest.mark.parametrize(
    "words",
    [
        ("subscriptions", "get", "\udcff"),
        ("subscriptions", "disable", "a", "--reason", "\udcff"),
        ("runs", "show", "\udcff"),
        ("events", "find", "--id", "\udcff"),
    ],
    ids=ascii,
)
def test_a_word_that_is_no_text_is_refused(other: Other, run: Run, words) -> None:
    """As one of the command line may be that is no UTF-8."""
    assert isinstance(other, Other)
    code, _, err = run(*words)
    assert (code, err) == (2, "This text is no UTF-8: '\\udcff'")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"id": "a\\ud800", "sink": "http://x/"}', "This text is no UTF-8: 'a\\ud800'"),
        ('{"id": 1' + "0" * 5_000 + "}", "this is no YAML: Exceeds the limit"),
        ("[" * 10_000, "this is no YAML: maximum recursion depth"),
    ],
    ids=["surrogate", "digits", "depth"],
)
def test_a_file_that_cannot_be_used_is_refused(
    other: Other, run: Run, tmp_path, text, told
) -> None:
    """It is named, and nothing was sent."""
    assert isinstance(other, Other)
    file = tmp_path / "a.json"
    file.write_text(text)
    code, _, err = run("subscriptions", "apply", "-f", str(file))
    assert (code, told in err) == (2, True)


def test_a_file_of_events_that_cannot_be_read_is_told(run: Run) -> None:
    """As every other file: it may be opened, and fail when it is read."""
    code, _, err = run("send", "/proc/self/mem", "--url", "http://127.0.0.1:1")
    assert (code, err) == (2, "Input/output error")
