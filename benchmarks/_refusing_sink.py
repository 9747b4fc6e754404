"""A measuring sink that refuses for good (400) until ``GET /take``; else as ``_sink``.

Its report also has how many ids arrived, each counted once.
"""

import uvloop

import _sink

REFUSAL = b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n"


class Different(_sink.Arrivals):
    """What arrived, and which ids."""

    def __init__(self):
        super().__init__()
        self.ids = set()

    def report(self):
        return super().report() | {"different": len(self.ids)}


class Refusing(_sink.Connection):
    """Requests of one connection."""

    takes = False

    def arrived(self, data, head):
        if Refusing.takes:
            at = data.find(b"e-id: ", 0, head)
            _sink.Connection.arrivals.ids.add(data[at + 6 : data.find(b"\r", at)])
            super().arrived(data, head)
        else:
            self.transport.write(REFUSAL)

    def ask(self, head):
        if head.startswith(b"GET /take"):
            Refusing.takes = True
        super().ask(head)


if __name__ == "__main__":
    _sink.Connection.arrivals = Different()
    uvloop.run(_sink.run(Refusing))
