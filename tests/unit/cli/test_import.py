"""``import``: what it reads, and what it says where the server ends."""

from pathlib import Path

import pytest
import typer

from distributary.cli import _http, _import
from distributary.core.errors import SettingsError, TransportError

ADDRESS = _http.Address(secure=False, host="127.0.0.1", port=1, prefix="", authority="127.0.0.1:1")
MAP = """
apiVersion: v1
kind: ConfigMap
metadata: {name: NAME}
data: {2: a, on: b, 2026-01-01: c}
---
"""


class Ending:
    """A server that takes one object and ends."""

    bodies: list[bytes]

    def __init__(self, _address: _http.Address) -> None:
        type(self).bodies = []

    async def request(
        self, _method: str, _path: str, _headers: _http.Headers = (), body: bytes = b""
    ) -> _http.Response:
        """Taken; then no answer any more."""
        if self.bodies:
            raise TransportError("reset", "the connection was closed before an answer")
        self.bodies.append(body)
        return _http.Response(201, {}, b"{}")

    def close(self) -> None:
        """Nothing."""


def test_what_was_taken_before_the_server_ended_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 3; keys of YAML that are no text are sent as JSON has them."""
    file = tmp_path / "all.yaml"
    file.write_text(MAP.replace("NAME", "one") + MAP.replace("NAME", "two"))
    monkeypatch.setattr(_import, "Client", Ending)
    with pytest.raises(typer.Exit) as ended:
        _import.run(ADDRESS, [str(file)], dry_run=False, replace=False)
    told = capsys.readouterr()
    assert ended.value.exit_code == 3
    assert "taken    ConfigMap default/one" in told.out
    assert "default/two" not in told.out
    assert "The others were not sent" in told.err
    assert b'"data":{"2":"a","true":"b","2026-01-01":"c"}' in Ending.bodies[0]


def test_a_key_that_json_cannot_have_is_a_fault_of_the_file(tmp_path: Path) -> None:
    """Nothing is sent."""
    file = tmp_path / "all.yaml"
    file.write_text("a: 1\n? [b]\n: 2\n? null\n: 3\n")
    with pytest.raises(SettingsError, match="this is no YAML"):
        _import.run(ADDRESS, [str(file)], dry_run=False, replace=False)
