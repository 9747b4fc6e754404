"""The banner of a start: what people copy from it is whole."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from distributary.server.processes.control.banner import say_serving


class Log:
    """Takes the line."""

    def info(self, _event: str, **_fields: Any) -> None:
        """Nothing."""


@pytest.mark.parametrize("is_terminal", ["1", ""])
def test_no_line_of_the_banner_is_folded_or_framed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], is_terminal: str
) -> None:
    """On a terminal of 60 columns the command for kubectl can be copied; brackets stay."""
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("FORCE_COLOR", is_terminal)
    monkeypatch.setenv("NO_COLOR", "1")
    base = "http://127.0.0.1:8080"
    listeners: Any = SimpleNamespace(url=base, amqp_url=None, health_url=None)
    places = (listeners, Path("/srv/[a]/data"), "")
    say_serving(Log(), places, {}, banner=True)
    lines = [line.split("\x1b[0m")[-1].strip() for line in capsys.readouterr().err.splitlines()]
    command = f"distributary kubeconfig --server {base} > kubeconfig.yaml"
    assert any(line.endswith(command) for line in lines)
    assert any(line.endswith("/srv/[a]/data") for line in lines)
