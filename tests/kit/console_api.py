"""An API that answers the console with whatever a test likes, at the console's real files.

Caller: the test of the console. What it answers has the shape of the real API, but every text may
be anything: a real server would refuse much of it, so a console that only met real ones might
trust them.
"""

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Self

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from distributary.server.console import PATH, Console
from kit.ports import free_port

KEY = "dk_a-key-that-nobody-else-has"
BEGIN_S_MAX = 30.0

Text = Callable[[str], str]
"""A text in place of a good one."""


def ago(seconds: float) -> str:
    """A time in the past, RFC 3339."""
    return (datetime.now(UTC) - timedelta(seconds=seconds)).isoformat(timespec="milliseconds")


class ConsoleApi:
    """Serves the console, and answers every path of the API that it asks.

    Args:
        text: Makes each text of an answer from a good one.
        key: What has to be shown; empty: nothing.

    Attributes:
        asked: Method and path of each request with its body, in order.
        halted: Why nothing is sent to its subscriptions, as their status has it.
        numbers: Members of ``/status`` in place of the usual ones.
        elsewhere: Other namespaces -> the same of each.
        run: More members of its run.
        conditions: Of its Brokers and Triggers.
        parted: Path of a list that has a second part; empty: none has.
        not_ready: Why it is not ready; empty: it is.
    """

    def __init__(self, text: Text = str, key: str = "") -> None:
        self._text = text
        self._key = key
        self.asked: list[tuple[str, str, bytes]] = []
        self.halted: dict[str, Any] = {}
        self.numbers: dict[str, Any] = {}
        self.elsewhere: dict[str, dict[str, Any]] = {}
        self.run: dict[str, Any] = {}
        self.conditions: list[Any] = [
            {"type": "Ready", "status": "False", "reason": text("No"), "message": text("why")}
        ]
        self.parted = self.not_ready = ""
        self._halt("paused")
        self._halt("disabled")
        self.port = free_port()
        console = Console()
        application = Starlette(
            routes=[
                Route(PATH, console),
                Route(f"{PATH}/{{rest:path}}", console),
                Route("/{rest:path}", self._answer, methods=["GET", "POST", "PUT", "DELETE"]),
            ]
        )
        config = uvicorn.Config(
            application, host="127.0.0.1", port=self.port, lifespan="off", log_config=None
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        end_s = time.monotonic() + BEGIN_S_MAX
        while not self._server.started:
            assert time.monotonic() < end_s
            time.sleep(0.01)
        return self

    def __exit__(self, *_error: object) -> None:
        self._server.should_exit = True
        self._thread.join()

    @property
    def url(self) -> str:
        """Of the console."""
        return f"http://127.0.0.1:{self.port}{PATH}"

    async def _answer(self, request: Request) -> Response:
        path, method = request.url.path, request.method
        self.asked.append((method, path, await request.body()))
        if self._key and request.headers.get("authorization") != f"Bearer {self._key}":
            return _json({"code": "unauthenticated", "detail": self._text("show a key")}, 401)
        if path == "/readyz" and self.not_ready:
            detail = self._text(self.not_ready)
            return _json({"code": "unavailable", "detail": detail}, 503)
        if method != "GET":
            return self._changed(path)
        found = self._found(path)
        if found is None:
            return _json({"code": "notfound", "detail": "there is nothing at this path"}, 404)
        answer = _json(found)
        if path == self.parted and "cursor" not in request.query_params:
            answer.headers["link"] = f'<{path}?cursor=2>; rel="next"'
        return answer

    def _halt(self, word: str) -> None:
        by, reason = self._text("key:till"), self._text("failed for a day")
        self.halted[word] = {"since": ago(60), "by": by, "reason": reason}

    def _changed(self, path: str) -> Response:
        match path.rpartition("/")[2]:
            case "pause":
                self._halt("paused")
            case "disable":
                self._halt("disabled")
            case "resume":
                self.halted.pop("paused", None)
            case "enable":
                del self.halted["disabled"]
        if path.endswith("/filters/try"):
            return _json(self._verdicts())
        if path.endswith(("/replay", "/redrive", "/purge")):
            return _json({"run": "run-1"}, 202)
        if path.endswith("/refused"):
            return _json({"code": "invalid", "detail": self._text("it is refused")}, 400)
        return _json({"run": "run-1"} if path.startswith("/subscriptions") else None, 202)

    def _found(self, path: str) -> Any:
        fixed = {
            "/whoami": self._whoami,
            "/readyz": lambda: {"ready": True},
            "/status": self._numbers,
            "/subscriptions": lambda: [self._subscription(number) for number in range(3)],
            "/events": lambda: [self._listed(number) for number in range(3)],
            "/dead-letters": lambda: [self._letter(number) for number in range(3)],
            "/runs": lambda: [self._run()],
            "/api/v1/namespaces": lambda: {
                "items": [{"metadata": {"name": name}} for name in ("default", *self.elsewhere)]
            },
        }
        if path in fixed:
            made: Callable[[], Any] = fixed[path]
            return made()
        for prefix, made in (
            ("/subscriptions/", self._of_subscription(path)),
            ("/events/", self._way),
            ("/dead-letters/", self._letter),
            ("/runs/", self._run),
            ("/apis/", lambda: {"items": self._objects(path)}),
            ("/namespaces/", lambda: self._numbers() | self.elsewhere[path.split("/")[2]]),
        ):
            if path.startswith(prefix):
                return made()
        return None

    def _of_subscription(self, path: str) -> Callable[[], Any]:
        below = {"/status": self._status, "/attempts": self._attempts}
        return next((of for end, of in below.items() if path.endswith(end)), self._subscription)

    def _whoami(self) -> Any:
        grants = [{"may": ["admin"], "namespaces": ["*"]}]
        return {"name": self._text("anybody"), "how": "none", "namespaces": ["*"], "grants": grants}

    def _numbers(self) -> Any:
        def point(seconds: int) -> dict[str, Any]:
            wave = 100 + 40 * (seconds % 7)
            rates = {
                "accepted": wave,
                "delivered": wave * 0.9,
                "p50": 0.004,
                "p99": 0.02 + wave / 1e4,
            }
            return {"time": ago(seconds), **rates, "backlog": wave * 3}

        return {
            "accepted": 120.5,
            "delivered": 118,
            "latency": {"p50": 0.0041, "p99": 0.0312},
            "backlog": 420,
            "waiting": 12,
            "failing": 1,
            "lagging": 0,
            "paused": 2,
            "deadLetters": 3,
            "minutes": [point(60 * step) for step in range(59, -1, -1)],
            "seconds": [point(5 * step) for step in range(23, -1, -1)],
        } | self.numbers

    def _failing(self) -> Any:
        text = self._text
        return {
            "since": ago(300),
            "last": ago(2),
            "count": 41,
            "reason": text("http 500"),
            "sink": text("http://sink.example/"),
            "status": 500,
        }

    def _subscription(self, number: int = 0) -> Any:
        text = self._text
        return {
            "id": text(f"orders-{number}"),
            "source": text("/shop"),
            "types": [text("com.example.order")],
            "filters": [{"prefix": {"type": text("com.")}}],
            "sink": text("http://sink.example/"),
            "protocol": "HTTP",
            "protocolsettings": {"headers": {"x-shop": text("till")}},
            "status": self._status(),
        }

    def _status(self) -> Any:
        text = self._text
        return {
            "id": text("orders-0"),
            "route": text("uid-1"),
            "revision": 3,
            "state": text("failing"),
            "failing": self._failing(),
            "lastSuccess": ago(400),
            "lastAnswer": {"time": ago(2), "status": text("500")},
            "inFlight": 3,
            "waiting": 12,
            "backfill": {"position": [], "distance": 1200},
            "delivered": 123456,
            "deadLettered": 3,
            "dropped": 0,
            "rate": 12.5,
            "rates": [12.5] * 12,
            "kept": {"count": 3, "bytes": 4000},
            **self.halted,
            "consent": [{"sink": text("s"), "state": text("asked"), "since": ago(5)}],
            "conditions": [
                {
                    "type": text("Delivering"),
                    "status": text("False"),
                    "reason": text("SinkFails"),
                    "message": text("the sink answers 500"),
                    "lastTransitionTime": ago(300),
                }
            ],
        }

    def _event(self, number: int = 0) -> Any:
        text = self._text
        return {
            "specversion": "1.0",
            "id": text(f"order-{number}"),
            "source": text("/shop"),
            "type": text("com.example.order"),
            "subject": text("order 7"),
            "extension": text("more"),
            "data": {text("who"): text("curl")},
        }

    def _listed(self, number: int) -> Any:
        return {"position": f"0-{number}-0", "time": ago(number), "event": self._event(number)}

    def _attempt(self) -> dict[str, Any]:
        text = self._text
        return {
            "time": ago(3),
            "stage": text("sink"),
            "attempt": 1,
            "duration": 0.012,
            "status": text("500"),
            "decision": text("retry"),
            "reason": text("http 500"),
            "answer": text("<html>oops</html>"),
        }

    def _attempts(self) -> Any:
        text = self._text
        event = {"id": text("e-1"), "source": text("/shop"), "type": text("com.example.order")}
        return [self._attempt() | {"position": "0-0-0", "event": event, "outcome": None}]

    def _way(self) -> Any:
        text, attempt = self._text, self._attempt()
        why = [{"path": text("$.filters[0].exact.type"), "reason": text('type is "x"')}]
        done = attempt | {"attempt": 2, "decision": "delivered", "status": 202, "reason": ""}
        return {
            "position": "0-0-0",
            "time": ago(4),
            "by": text("key:till"),
            "address": text(""),
            "event": self._event(),
            "matches": [
                {
                    "subscription": text("orders-0"),
                    "uid": text("uid-1"),
                    "matched": True,
                    "outcome": "delivered",
                    "attempts": [attempt, done],
                },
                {
                    "trigger": text("audit"),
                    "uid": text("uid-2"),
                    "matched": True,
                    "outcome": text("dead-lettered"),
                    "attempts": [attempt],
                },
                {"subscription": text("others"), "matched": False, "why": why},
            ],
            "more": True,
        }

    def _why(self) -> Any:
        text = self._text
        part = {
            "dialect": text("exact"),
            "path": text("$.filters[0]"),
            "verdict": False,
            "reason": text('type is "x"'),
            "decided": True,
        }
        return part | {"parts": [part, part | {"decided": False}]}

    def _verdicts(self) -> Any:
        text = self._text
        known = {"id": text("1"), "source": text("/shop"), "type": text("t")}
        result = {**known, "matched": False, "why": self._why()}
        return {"tried": 3, "matched": 0, "results": [result] * 3}

    def _letter(self, number: int = 0) -> Any:
        text = self._text
        return {
            "id": text(f"0-{number}"),
            "route": text("uid-1"),
            "subscription": text("orders-0"),
            "kept": ago(100),
            "reason": text("http 500"),
            "sink": text("http://sink.example/"),
            "status": 500,
            "event": self._event(number),
        }

    def _run(self) -> Any:
        text = self._text
        return {
            "run": text("run-1"),
            "kind": text("redrive"),
            "state": text("running"),
            "asked": ago(2),
            "by": text("key:till"),
            "selected": 100,
            "handled": 40,
            "looked": 60,
            "total": 200,
            "passed": 2,
            "rateLimit": 50,
        } | self.run

    def _objects(self, path: str) -> list[Any]:
        text = self._text
        status = {
            "conditions": self.conditions,
            "address": {"url": text("http://here/brokers/default/default")},
            "subscriberUri": text("http://sink.example/"),
        }
        if path.endswith(("brokers", "channels")):
            return [{"metadata": {"name": text("default")}, "spec": {}, "status": status}]
        spec = {
            "broker": text("default"),
            "channel": {"kind": "Channel", "name": text("default")},
            "filter": {"attributes": {"type": text("t")}},
            "subscriber": {"uri": text("http://sink.example/")},
        }
        return [{"metadata": {"name": text("audit")}, "spec": spec, "status": status}]


def _json(value: object, status: int = 200) -> Response:
    return Response(msgspec.json.encode(value), status, media_type="application/json")
