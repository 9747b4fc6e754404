"""What a node says of itself: to health checks, for metrics, and where it does not lead, by HTTP.

The control part of the node that leads says more; the node asks it, and repeats why it is not
ready.
"""

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec
from starlette.types import ASGIApp, Receive, Scope, Send

from distributary.access import ALL_NAMESPACES, Permission, Verb, sender_of
from distributary.core.errors import CATALOGUE
from distributary.core.meter import Meter
from distributary.server.nodes import NodeKeeper
from distributary.server.processes.supervision.health import Health
from distributary.subscriptions.http import CLUSTER_PATH, Cluster, create_cluster_app

ASK_S: Final = 0.5
"""Interval of questions to the control part."""

ANSWER_S_MAX: Final = 2.0
"""Longest wait for its answer; then it does not answer."""

_QUESTION: Final = b"GET /readyz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"


class _Problem(msgspec.Struct):
    detail: str = ""


class ControlReadiness:
    """Why the control part of this node is not ready, as it said last. For the event loop.

    Args:
        path: Its socket.

    Attributes:
        why_not: For people; None: it is ready.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.why_not: str | None = "the control part is starting"

    def begin(self) -> None:
        """A new one has been started."""
        self.why_not = "the control part is starting"

    async def follow(self) -> None:
        """Ask again and again; never returns."""
        while True:
            self.why_not = await self._ask()
            await asyncio.sleep(ASK_S)

    async def _ask(self) -> str | None:
        try:
            async with asyncio.timeout(ANSWER_S_MAX):
                reader, writer = await asyncio.open_unix_connection(self._path)
                try:
                    writer.write(_QUESTION)
                    answer = await reader.read()
                finally:
                    writer.close()
                    with contextlib.suppress(OSError):
                        await writer.wait_closed()
        except (OSError, TimeoutError):
            return "the control part does not answer"
        head, _, body = answer.partition(b"\r\n\r\n")
        if head.startswith(b"HTTP/1.1 200 "):
            return None
        with contextlib.suppress(msgspec.MsgspecError):
            return msgspec.json.decode(body, type=_Problem).detail
        return "the control part is not ready"


def why_not_ready(
    keeper: NodeKeeper, leads: Callable[[], bool], control: ControlReadiness
) -> str | None:
    """Why this node is not ready, its receivers aside; None: it is.

    A node that does not lead is ready while somebody does: it takes events, and passes the rest on.
    """
    if not keeper.fresh:
        return f"the store cannot be asked: {keeper.trouble or 'its answers are too old'}"
    if leads():
        return control.why_not
    return None if keeper.leader.known else "no node leads at present"


def count_node(meter: Meter, name: str, *, leads: bool, live: int) -> None:
    """Add the metrics of a node."""
    role = "leader" if leads else "follower"
    meter.gauges[f'node_info{{node="{name}",role="{role}"}}'] = 1.0
    meter.gauges["nodes_live"] = float(live)


def node_application(health: Health, cluster: Cluster) -> ASGIApp:
    """Answers at the socket of a node that does not lead: health and metrics, as ``health`` says.

    And who takes part, as ``cluster`` says.

    Receivers have asked who is there, and pass nothing else on.
    """
    of_cluster = create_cluster_app(cluster)

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        if scope["path"] == CLUSTER_PATH:
            await of_cluster(scope, receive, send)
            return
        path, status, kind = scope["path"], 200, b"text/plain; charset=utf-8"
        sender = sender_of(scope["headers"])
        if path == "/metrics":
            body = health.metrics(sender.where(Verb.OBSERVE))
            kind = b"text/plain; version=0.0.4; charset=utf-8"
        else:
            well, reasons = health.alive() if path == "/healthz" else health.ready()
            if well:
                body = b"ok\n" if path == "/healthz" else b'{"ready":true}'
                kind = kind if path == "/healthz" else b"application/json"
            else:
                status, kind = 503, b"application/problem+json"
                told = path == "/healthz" or sender.may(Permission(Verb.OBSERVE, ALL_NAMESPACES))
                body = _problem("; ".join(reasons) if told else "not ready")
        headers = [(b"content-type", kind), (b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    return serve


def _problem(detail: str) -> bytes:
    entry = CATALOGUE["unavailable"]
    return msgspec.json.encode(
        {
            "type": "about:blank",
            "title": entry.title,
            "detail": detail,
            "status": entry.status,
            "code": "unavailable",
            "faults": [],
        }
    )
