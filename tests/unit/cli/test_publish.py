import asyncio
from collections.abc import AsyncIterator

import pytest

from distributary.cli import _publish
from distributary.cli._http import Response
from distributary.cli._outgoing import Envelope, wrap
from distributary.cli._publish import Publisher, PublishResult
from distributary.core.errors import TransportError
from distributary.core.event import Event

EVENT = Event({"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}, b"x")


class Still:
    """A clock that the sleeps of the publisher move, and no chance at all."""

    now_s = 0.0

    def monotonic_s(self) -> float:
        return self.now_s

    def wall_ms(self) -> int:
        return int(self.now_s * 1000)

    def unit(self) -> float:
        return 0.0

    async def sleep(self, seconds: float) -> None:
        self.now_s += seconds


class Script:
    """A server that answers by a list; the last answer repeats."""

    def __init__(self, *answers: int | str | tuple[int, str]) -> None:
        self.answers = list(answers)
        self.asked = 0

    async def request_raw(self, method: str, path: str, lines: bytes, body: bytes) -> Response:
        assert (method, path[0]) == ("POST", "/")
        assert lines
        assert body
        self.asked += 1
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, str):
            raise TransportError(answer, "no answer")
        status, after = answer if isinstance(answer, tuple) else (answer, "")
        return Response(status, {"retry-after": after} if after else {}, b"")


def publish(script: Script, give_up_s: float = 30.0) -> tuple[PublishResult, Still]:
    """Publish one event against a script."""
    still = Still()
    publisher = Publisher(
        script, "/events", clock=still, random=still, give_up_s=give_up_s, sleep=still.sleep
    )
    return asyncio.run(publisher.publish(wrap([EVENT], "binary"))), still


@pytest.mark.parametrize("status", [200, 202, 204])
def test_2xx_is_acknowledged(status: int) -> None:
    """The first answer is the last."""
    published, _ = publish(Script(status))
    assert (published.state, published.attempts, published.ambiguous) == ("acked", 1, 0)


@pytest.mark.parametrize("status", [302, 400, 404, 413, 415, 500])
def test_a_refusal_for_good_is_not_repeated(status: int) -> None:
    """The same bytes would be refused again."""
    script = Script(status)
    published, _ = publish(script)
    assert (published.state, script.asked) == ("refused", 1)


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_not_now_is_repeated_until_it_is_acknowledged(status: int) -> None:
    """Two refusals, then success; only gateways leave it open what became of the event."""
    published, _ = publish(Script(status, status, 202))
    assert (published.state, published.attempts) == ("acked", 3)
    assert published.ambiguous == (2 if status in {502, 504} else 0)


@pytest.mark.parametrize(
    ("reason", "ambiguous"), [("refused", 0), ("dns", 0), ("tls", 0), ("reset", 1), ("timeout", 1)]
)
def test_a_missing_answer_is_repeated_and_remembered(reason: str, ambiguous: int) -> None:
    """What never left cannot be stored; what got no answer may be."""
    published, _ = publish(Script(reason, 202))
    assert (published.state, published.ambiguous) == ("acked", ambiguous)


@pytest.mark.parametrize(
    ("answer", "state"),
    [("reset", "unknown"), ("timeout", "unknown"), ("refused", "refused"), (503, "refused"),
     (504, "unknown")],
)  # fmt: skip
def test_patience_ends(answer: int | str, state: str) -> None:
    """No attempt begins after the limit, and the state says what may have been stored."""
    published, still = publish(Script(answer), give_up_s=10.0)
    assert published.state == state
    assert published.attempts > 3
    assert still.now_s <= 10.0


def test_an_unclear_attempt_is_not_forgotten_when_the_last_is_clear() -> None:
    """Reset, then refused connections until the end: it may have been stored."""
    published, _ = publish(Script("reset", "refused"), give_up_s=2.0)
    assert (published.state, published.ambiguous) == ("unknown", 1)


def test_retry_after_is_waited_for() -> None:
    """Ten seconds were asked for."""
    _, still = publish(Script((503, "10"), 202))
    assert still.now_s == 10.0


@pytest.mark.parametrize(
    ("retry_after", "seconds"),
    [
        (None, 0.1),
        ("0", 0.1),
        ("7", 7.0),
        ("-1", 0.1),
        ("soon", 0.1),
        ("\u0667", 0.1),
        ("9" * 400, 999999999.0),
        ("Thu, 01 Jan 1970 00:00:30 GMT", 30.0),
        ("Thu, 01 Jan 1970 99:99:99 GMT", 0.1),
    ],
)
def test_rubbish_in_retry_after_is_passed_over(retry_after: str | None, seconds: float) -> None:
    """Seconds and dates count; all else is our own wait."""
    assert _publish.wait_s(1, retry_after, 0.0, 0) == pytest.approx(seconds)


def test_own_waits_double_up_to_a_ceiling_and_never_overflow() -> None:
    """0.1, 0.2, 0.4 … 5 s; chance only shortens, by half at most."""
    waits = [_publish.wait_s(n, None, 0.0, 0) for n in (1, 2, 3, 6, 7, 10_000)]
    assert waits == pytest.approx([0.1, 0.2, 0.4, 3.2, 5.0, 5.0])
    assert _publish.wait_s(10_000, None, 0.999, 0) >= 2.5


def test_every_event_of_a_batch_gets_its_ledger_line() -> None:
    """One request, one state, a line an event."""
    events = [Event({**EVENT.attributes, "id": str(n)}, b"x") for n in range(3)]
    published = PublishResult(wrap(events, "batch"), "acked", Response(202, {}, b""), None, 1, 2)
    lines = _publish.ledger_lines(published, 77)
    assert [line.id for line in lines] == ["0", "1", "2"]
    assert {(line.state, line.t, line.status, line.ambiguous) for line in lines} == {
        ("acked", 77, 202, 1)
    }


def test_all_envelopes_are_published_by_few_publishers() -> None:
    """Ten requests over three connections; each ends once."""
    still = Still()
    scripts = [Script(202) for _ in range(3)]
    publishers = [Publisher(s, "/e", clock=still, random=still, sleep=still.sleep) for s in scripts]
    done: list[PublishResult] = []

    async def envelopes() -> AsyncIterator[Envelope]:
        for _ in range(10):
            yield wrap([EVENT], "structured")

    asyncio.run(_publish.publish_all(envelopes(), publishers, done.append))
    assert len(done) == 10
    assert sum(script.asked for script in scripts) == 10


def test_a_page_acknowledges_nothing() -> None:
    """A proxy that wants a sign-in first answers 200, and keeps no event."""
    response = Response(200, {"content-type": "text/html; charset=utf-8"}, b"<html>")

    class Page:
        async def request_raw(self, *_said: object) -> Response:
            return response

    still = Still()
    publisher = Publisher(Page(), "/e", clock=still, random=still, sleep=still.sleep)
    published = asyncio.run(publisher.publish(wrap([EVENT], "binary")))
    assert published.state == "refused"
    headline, _ = _publish.problem_of(published)
    assert headline == "200 the answer is text/html; charset=utf-8"


def test_the_problem_of_a_refusal_is_taken_from_its_body() -> None:
    """Detail first, then title; a body that is no problem is no problem."""
    envelope = wrap([EVENT], "binary")
    fault = {"path": "ce-id", "code": "empty", "message": "must not be empty"}
    body = b'{"title": "T", "detail": "D", "faults": [{"path": "ce-id", "code": "empty", '
    body += b'"message": "must not be empty"}]}'
    for answered, expected in (
        (body, ("400 D", [fault])),
        (b'{"title": "T"}', ("400 T", [])),
        (b"<html>", ("400 the server refused", [])),
        (b"[]", ("400 the server refused", [])),
        (b'{"title": "\xff"}', ("400 the server refused", [])),
    ):
        published = PublishResult(envelope, "refused", Response(400, {}, answered), None, 0, 1)
        assert _publish.problem_of(published) == expected
