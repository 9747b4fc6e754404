"""A port that others reach: only where it is meant, and said again and again."""

import asyncio

import pytest

from distributary.server import processes as app
from distributary.server.processes._ground import check_open, is_open, keep_warning
from distributary.server.settings import Settings
from distributary.testing.virtual_loop import VirtualLoop


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "2001:db8::1"])
def test_an_address_of_everybody_is_refused_with_what_would_allow_it(tmp_path, capfd, host):
    """Before anything is made or started: exit code 1, and nothing on the disk."""
    data_dir = tmp_path / "data"
    chosen = Settings(data_dir=data_dir, host=host, java_home=tmp_path / "nowhere")
    assert app.serve(chosen) == 1
    assert "--no-auth (no_auth = true)" in capfd.readouterr().err
    assert not data_dir.exists()


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_loopback_needs_no_word(host):
    """As ever."""
    check_open(Settings(host=host))
    assert not is_open(host)


def test_whoever_says_that_it_is_meant_gets_it():
    """Decision 28."""
    check_open(Settings(host="0.0.0.0", no_auth=True))


class Lines:
    """Keeps what is warned of."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def warning(self, event: str, **_fields: object) -> None:
        self.events.append(event)


@pytest.mark.parametrize(("host", "count"), [("0.0.0.0", 8), ("127.0.0.1", 0)])
def test_an_open_port_is_warned_of_each_day(host, count):
    """At the start, and in every day's log after it."""
    log = Lines()
    week_s = 7 * 86_400

    async def week() -> None:
        warning = asyncio.create_task(keep_warning(host, log))
        await asyncio.sleep(week_s + 1)
        warning.cancel()

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(week())
    assert log.events == ["open-to-everybody"] * count
