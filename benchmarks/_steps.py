"""A sink whose answers are events: the steps of a chain, and a loop that never ends by itself.

Prints its port. ``/step/{n}`` answers with an event of type ``step.{n+1}``, ``/end`` ends the
chain and counts, ``/loop`` answers with the event that it got; ``GET /stats`` and ``GET /reset``
as in ``_sink``. An answer has the body of what it answers, and its ``ce-sentns``.
"""

import itertools

import uvloop

import _sink

REPLY = (
    b"HTTP/1.1 200 OK\r\nce-specversion: 1.0\r\nce-source: /steps\r\nce-id: r%d\r\nce-type: %s\r\n"
    b"ce-sentns: %s\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s"
)
_numbers = itertools.count()


class Steps(_sink.Connection):
    """Requests of one connection; those of ``/end`` and ``/loop`` count."""

    def arrived(self, data, head):
        target = data[5 : data.find(b" ", 5)]
        if not target.startswith(b"/step/"):
            self.count(data, head)
        if target == b"/end":
            self.transport.write(_sink.OK)
            return
        body = data[head + 4 : head + 4 + _sink.content_length(data, head)]
        type_ = b"step.%d" % (int(target[6:]) + 1) if target != b"/loop" else b"loop"
        values = (next(_numbers), type_, _sink.sent_ns(data, head), len(body), body)
        self.transport.write(REPLY % values)


if __name__ == "__main__":
    uvloop.run(_sink.run(Steps))
