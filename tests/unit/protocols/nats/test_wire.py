"""What is written to a server that does not read."""

import asyncio

from distributary.protocols.nats.sink import _wire


class Below:
    """The transport of a peer that takes nothing."""

    def __init__(self):
        self.unsent = 0
        self.aborted = False

    def write(self, data):
        self.unsent += len(data)

    def get_write_buffer_size(self):
        return self.unsent

    def is_closing(self):
        return self.aborted

    def abort(self):
        self.aborted = True


def test_a_server_that_asks_and_does_not_read_is_left(monkeypatch):
    """Our PONGs are not kept without end."""
    monkeypatch.setattr(_wire, "UNSENT_BYTES_MAX", 60)

    async def scenario():
        wire = _wire.Wire(None, None)
        below = Below()
        wire.connection_made(below)
        for _ in range(10):
            wire.write(b"PONG\r\n")
        assert not below.aborted
        wire.write(b"PONG\r\n")
        assert below.aborted
        wire.write(b"PONG\r\n")
        assert below.unsent == 66

    asyncio.run(scenario())
