"""A port that others reach: clients show who they are, or it is said again and again."""

import asyncio

import pytest

from distributary.server.processes.base.ground import auth_required, is_open, keep_warning
from distributary.server.settings import Settings
from distributary.testing.virtual_loop import VirtualLoop


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "2001:db8::1"])
def test_at_an_address_of_everybody_clients_must_show_who_they_are(host):
    """Unless it is said that they need not."""
    assert auth_required(Settings(host=host))
    assert not auth_required(Settings(host=host, auth="off"))
    assert not auth_required(Settings(host=host, no_auth=True))


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_loopback_needs_no_word(host):
    """As ever; and it may be asked for."""
    assert not auth_required(Settings(host=host))
    assert auth_required(Settings(host=host, auth="required"))
    assert not is_open(host)


class Lines:
    """Keeps what is warned of."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def warning(self, event: str, **_fields: object) -> None:
        self.events.append(event)


@pytest.mark.parametrize(
    ("settings", "count"),
    [
        (Settings(host="0.0.0.0", auth="off"), 8),
        (Settings(public_url="https://events.example"), 8),
        (Settings(host="0.0.0.0"), 0),
        (Settings(public_url="https://events.example", auth="required"), 0),
        (Settings(), 0),
    ],
)
def test_an_open_server_is_warned_of_each_day(settings, count):
    """At the start, and in every day's log after it; behind a proxy it is open too."""
    log = Lines()
    week_s = 7 * 86_400

    async def week() -> None:
        warning = asyncio.create_task(keep_warning(settings, log))
        await asyncio.sleep(week_s + 1)
        warning.cancel()

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(week())
    assert log.events == ["open-to-everybody"] * count
