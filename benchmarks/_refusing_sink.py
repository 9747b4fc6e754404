"""A measuring sink that refuses for good (400) until ``GET /take``; else as ``_sink``."""

import uvloop

import _sink

REFUSAL = b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n"


class Refusing(_sink.Connection):
    """Requests of one connection."""

    takes = False

    def arrived(self, data, head):
        if Refusing.takes:
            super().arrived(data, head)
        else:
            self.transport.write(REFUSAL)

    def ask(self, head):
        if head.startswith(b"GET /take"):
            Refusing.takes = True
        super().ask(head)


if __name__ == "__main__":
    uvloop.run(_sink.run(Refusing))
