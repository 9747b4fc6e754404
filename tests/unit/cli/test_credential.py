"""Credentials from the command line: secrets come from places that process lists do not show."""

import pytest

from distributary.cli._secrets import read_secret
from distributary.cli._subscribe_flags import body_of
from distributary.core.named_files import SECRET_FILE_BYTES_MAX


def test_a_secret_comes_from_the_environment():
    """As it stands."""
    assert read_secret("--secret-from", "env:PASS", {"PASS": " hunter2 "}) == " hunter2 "


@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
def test_a_secret_comes_from_a_file_without_its_line_end(tmp_path, end):
    """Editors write one; no password means it."""
    path = tmp_path / "pass:word"
    path.write_bytes(f"hunter2 {end}".encode())
    assert read_secret("--secret-from", f"file:{path}", {}) == "hunter2 "


@pytest.mark.parametrize("source", ["hunter2", "env:", "file:", "http://hunter2", ":hunter2"])
def test_what_names_no_place_is_not_repeated(source):
    """It may be the secret itself, and errors are shown, pasted and logged."""
    with pytest.raises(ValueError, match="--secret-from: expected env:NAME") as caught:
        read_secret("--secret-from", source, {})
    assert "hunter2" not in str(caught.value)


def test_a_place_that_is_not_there_is_named(tmp_path):
    """So that it can be mended."""
    with pytest.raises(ValueError, match="no environment variable PASS"):
        read_secret("--secret-from", "env:PASS", {})
    with pytest.raises(ValueError, match="nowhere"):
        read_secret("--secret-from", f"file:{tmp_path}/nowhere", {})


def test_a_file_that_is_no_secret_is_refused(tmp_path):
    """A wrong name is told at once, without what is in it."""
    path = tmp_path / "blob"
    path.write_bytes(b"\xffhunter2")
    with pytest.raises(ValueError, match="not text") as caught:
        read_secret("--secret-from", f"file:{path}", {})
    assert "hunter2" not in str(caught.value)
    path.write_bytes(b"x" * (SECRET_FILE_BYTES_MAX + 1))
    with pytest.raises(ValueError, match="more than 65536 bytes"):
        read_secret("--secret-from", f"file:{path}", {})


def test_flags_become_a_credential(monkeypatch):
    """What was not said is left out: the server decides what belongs together."""
    monkeypatch.setenv("PASS", "hunter2")
    flags = {"credential_type": "PLAIN", "identifier": "me", "secret_from": "env:PASS"}
    body = body_of({"sink": "http://e.com", "access_token_type": None, **flags})
    assert body["sinkCredential"] == {
        "credentialType": "PLAIN",
        "identifier": "me",
        "secret": "hunter2",
    }


def test_no_flags_are_no_credential():
    """Not an empty one."""
    flags = {"sink": "http://e.com", "identifier": None, "secret_from": None}
    assert "sinkCredential" not in body_of(flags)
