"""Sends events in batches, until each is taken or refused, as often as the server asks.

Caller: ``writer``, one for each task. Hides: batches, what each response means, and waiting. Knows
no network and no clock: both are handed in.

=====================  =====================================================================
response               what follows
=====================  =====================================================================
2xx                    all events of the request are taken
408, 429, 500 to 504,  the same request again, after the wait that ``Retry-After`` asks for
or none                and at least the backoff; after ``retries`` of them the write fails
faults of events       those rows are refused; the others are sent again without them
other 400, 413, 415    the batch is sent in halves; a single event goes in binary mode, and
                       if that does not help, its row is refused
any other              the write fails: the next request would get the same response
=====================  =====================================================================
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

import msgspec

from distributary.core.errors import CATALOGUE, Fault, RequestError, TransportError
from distributary.core.event import Event, canonical, content, header_text, json_format, shown
from distributary.core.policy import DeliveryPolicy, delay_before_s, retry_after_s
from distributary.spark.publish._rows import RowEvent

REFUSED_NAMED_MAX: Final = 20
"""Refused rows of a task that are named; all are counted."""

DETAIL_CHARS_MAX: Final = 500
"""Most characters of a server's words that an error repeats."""

WAIT_S_MAX: Final = 60.0
"""Longest wait before a request is repeated, whatever ``Retry-After`` says, seconds: the task may
be cancelled meanwhile."""

_BATCH_LINES: Final = b"content-type: application/cloudevents-batch+json\r\n"
_REPEATED: Final = frozenset({408, 429, 500, 502, 503, 504})
_SPLIT: Final = frozenset({400, 413, 415})
_INDEXED: Final = re.compile(r"\$\[(\d{1,6})\]\.?(.*)", re.DOTALL)


class ServerResponse(NamedTuple):
    """What the server answered.

    Attributes:
        status: 200 to 599.
        retry_after: Value of ``Retry-After``; None: there was none.
        body: As far as it was read.
    """

    status: int
    retry_after: str | None
    body: bytes


class Post(Protocol):
    """Sends one request to where events go."""

    def __call__(self, lines: bytes, body: bytes, /) -> ServerResponse:
        """Send *body* with the header *lines*, each of which ends with CR LF.

        Raises:
            TransportError: No response came; whether the events are taken is unknown.
        """


class Waits(NamedTuple):
    """Time, as the publisher uses it.

    Attributes:
        sleep: Waits some seconds.
        wall_ms: Wall clock, milliseconds.
        jitter: Draws a number from 0 to 1.
    """

    sleep: Callable[[float], None]
    wall_ms: Callable[[], int]
    jitter: Callable[[], float]


class RefusedRow(NamedTuple):
    """A row that is no event, or that the server does not take.

    Attributes:
        row: Its number in the task, from 0.
        id: Of its event; empty: it has none.
        faults: What is wrong; paths name columns, or the place that the server named.
    """

    row: int
    id: str
    faults: tuple[Fault, ...]


class _Problem(msgspec.Struct):
    code: str = ""
    title: str = ""
    detail: str = ""
    faults: list[Fault] = []


class Publisher:
    """Publishes the events of one task; ``finish`` it.

    Args:
        post: Sends a request.
        waits: Time.
        batch_events_max: Most events of a request, from 1.
        batch_bytes_max: Most bytes of a request; a larger event goes alone, in binary mode.
        retries: Repeated requests of one batch.

    Attributes:
        taken: Events that the server has taken.
        refused_count: Rows that were refused.
        refused: The first of them.
        codes: How many faults of each code the refused rows have.
    """

    def __init__(
        self,
        post: Post,
        waits: Waits,
        *,
        batch_events_max: int,
        batch_bytes_max: int,
        retries: int,
    ) -> None:
        self._post = post
        self._waits = waits
        self._events_max = batch_events_max
        self._bytes_max = batch_bytes_max
        self._policy = DeliveryPolicy(retry=retries, backoff_max_s=WAIT_S_MAX)
        self._batch: list[tuple[RowEvent, bytes]] = []
        self._bytes = 0
        self._one_by_one = False
        self.taken = 0
        self.refused_count = 0
        self.refused: list[RefusedRow] = []
        self.codes: Counter[str] = Counter()

    def add(self, found: RowEvent) -> None:
        """Publish the event of a row, perhaps later; a row that is none is refused.

        Raises:
            RequestError: The server takes nothing from us, or nothing now.
            TransportError: It does not answer.
        """
        if found.faults:
            self._refuse(found, found.faults)
            return
        text = json_format.encode(found.event)
        if len(text) + 2 > self._bytes_max:
            self.finish()
            self._send_alone(found)
            return
        if self._bytes + len(text) + 2 > self._bytes_max or len(self._batch) >= self._events_max:
            self.finish()
        self._batch.append((found, text))
        self._bytes += len(text) + 1

    def finish(self) -> None:
        """Publish what waits for a full batch.

        Raises:
            RequestError: As ``add``.
            TransportError: As ``add``.
        """
        batch, self._batch, self._bytes = self._batch, [], 0
        if batch:
            self._send(batch)

    def _send(self, batch: Sequence[tuple[RowEvent, bytes]]) -> None:
        if self._one_by_one:
            for found, _ in batch:
                self._send_alone(found)
            return
        response = self._answered(_BATCH_LINES, b"[%b]" % b",".join([text for _, text in batch]))
        if response.status < 300:
            self.taken += len(batch)
            return
        problem = _problem_of(response)
        refused = _by_row(problem.faults, len(batch))
        if refused:
            for index, faults in refused.items():
                self._refuse(batch[index][0], faults)
            left = [each for index, each in enumerate(batch) if index not in refused]
            if left:
                self._send(left)
        elif response.status not in _SPLIT:
            raise _failed(response, problem, self._so_far())
        elif response.status == 415:
            self._one_by_one = True  # it takes no batches
            self._send(batch)
        elif len(batch) == 1:
            self._send_alone(batch[0][0])
        else:
            half = len(batch) // 2
            self._send(batch[:half])
            self._send(batch[half:])

    def _send_alone(self, found: RowEvent) -> None:
        response = self._answered(*binary_mode(found.event))
        if response.status < 300:
            self.taken += 1
            return
        problem = _problem_of(response)
        if not problem.faults and response.status not in _SPLIT:
            raise _failed(response, problem, self._so_far())
        whole = Fault("$", problem.code or str(response.status), problem.detail or "was refused")
        self._refuse(found, tuple(problem.faults) or (whole,))

    def _answered(self, lines: bytes, body: bytes) -> ServerResponse:
        """The response to a request, which is repeated as long as the server asks for that."""
        attempt = 1
        while True:
            asked = None
            try:
                response = self._post(lines, body)
            except TransportError as error:
                if not error.retryable or attempt > self._policy.retry:
                    message = f"{error} ({attempt} requests); {self._so_far()}"
                    raise TransportError(error.reason, message) from error
            else:
                if response.status not in _REPEATED:
                    return response
                if attempt > self._policy.retry:
                    tried = f"{attempt} requests; {self._so_far()}"
                    raise _failed(response, _problem_of(response), tried)
                asked = retry_after_s(response.retry_after, self._waits.wall_ms())
            attempt += 1
            wait_s = delay_before_s(attempt, self._policy, self._waits.jitter())
            self._waits.sleep(max(wait_s, min(asked or 0.0, WAIT_S_MAX)))

    def _refuse(self, found: RowEvent, faults: Sequence[Fault]) -> None:
        self.refused_count += 1
        self.codes.update(fault.code for fault in faults)
        if len(self.refused) < REFUSED_NAMED_MAX:
            event_id = found.event.attributes.get("id")
            shown_id = shown(event_id) if isinstance(event_id, str) else ""
            self.refused.append(RefusedRow(found.row, shown_id, tuple(faults)))

    def _so_far(self) -> str:
        return f"{self.taken} events of this task are published"


def binary_mode(event: Event) -> tuple[bytes, bytes]:
    """The header lines and the body of a valid *event* in binary mode (HTTP Protocol Binding)."""
    event = content.in_binary_mode(event)
    lines = []
    for name, value in event.attributes.items():
        start = "content-type" if name == "datacontenttype" else f"ce-{name}"
        written = text = canonical(value)
        if name != "datacontenttype" or not (text.isascii() and text.isprintable()):
            written = header_text.percent_encode(text)
        lines.append(f"{start}: {written}\r\n")
    return "".join(lines).encode("ascii"), event.data or b""


def _by_row(faults: Sequence[Fault], count: int) -> Mapping[int, list[Fault]]:
    """Faults by the index of their event; those of no single event are left out."""
    found: dict[int, list[Fault]] = {}
    for fault in faults:
        match = _INDEXED.fullmatch(fault.path)
        if match is None and count == 1:
            found.setdefault(0, []).append(fault)
        elif match is not None and int(match[1]) < count:
            place = Fault(match[2] or "$", fault.code, fault.message)
            found.setdefault(int(match[1]), []).append(place)
    return found


def _problem_of(response: ServerResponse) -> _Problem:
    try:
        return msgspec.json.decode(response.body, type=_Problem)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return _Problem()


def _failed(response: ServerResponse, problem: _Problem, so_far: str) -> RequestError:
    """The error after which nothing more is sent."""
    code = problem.code if problem.code in CATALOGUE else "unavailable"
    said = (problem.detail or problem.title)[:DETAIL_CHARS_MAX]
    words = f"the server answered {response.status} {problem.code}".rstrip()
    return RequestError(code, f"{words}: {said} ({so_far})" if said else f"{words} ({so_far})")
