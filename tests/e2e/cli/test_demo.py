import sys
from pathlib import Path

import pytest

from distributary.cli import demo

STUB = str(Path(__file__).parent / "stub_server.py")

pytestmark = pytest.mark.slow


def command(fault: str = "") -> list[str]:
    """What starts the stub in place of ``serve``."""
    return [sys.executable, STUB, "{port}", fault]


def test_the_demo_ends_with_zero_where_every_promise_is_held(
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Arrivals of every subscription, refusals, dead letters and the verdict are shown."""
    assert demo.run(command()) == 0
    shown = capfd.readouterr().out
    assert "the failing sink recovers" in shown
    assert "dead letter (400)" in shown
    assert "every promise held" in shown


@pytest.mark.parametrize(("fault", "kind"), [("lose", "lost"), ("double", "duplicate")])
def test_the_demo_ends_with_one_where_a_promise_is_broken(
    fault: str, kind: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A planted defect of the server is found by the demo's own check."""
    monkeypatch.setattr(demo, "FINISH_S_MAX", 2.0)
    assert demo.run(command(fault)) == 1
    assert f"{kind}: everything:" in capfd.readouterr().out


def test_a_server_that_does_not_become_ready_fails_the_demo(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reason is said, and nothing hangs."""
    monkeypatch.setattr(demo, "READY_S_MAX", 1.0)
    assert demo.run(command("stuck")) == 1
    assert "did not become ready" in capfd.readouterr().err


def test_a_server_that_dies_fails_the_demo_with_its_last_words(
    capfd: pytest.CaptureFixture[str],
) -> None:
    """The end of the server's log is in the message."""
    dying = [sys.executable, "-c", "raise SystemExit('no Java here')"]
    assert demo.run(dying) == 1
    assert "no Java here" in capfd.readouterr().err


def test_a_machine_on_which_no_port_can_be_opened_fails_the_demo(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says why, and does not try for ever."""

    def refuse(*_: object, **__: object) -> None:
        raise OSError("no descriptor is free")

    monkeypatch.setattr(demo.socket, "create_server", refuse)
    assert demo.run(command()) == 1
    assert "no port can be opened on 127.0.0.1: no descriptor is free" in capfd.readouterr().err
