"""One MQTT connection as an ``asyncio.Protocol``: login, publish, subscribe, keepalive.

::

    CONNECT -> CONNACK -> publish / subscribe ... -> DISCONNECT, or the end of the connection
                             |
          QoS 0: written      QoS 1: PUBACK      QoS 2: PUBREC -> PUBREL -> PUBCOMP

Never retransmits or reconnects: the caller decides about messages in flight when the connection
ends.
"""

import asyncio
from collections.abc import Callable
from typing import Final, Generic, TypeVar, cast

from distributary.core.errors import TransportError
from distributary.protocols.mqtt.engine import _packets, _properties
from distributary.protocols.mqtt.engine._in_flight import InFlight, Token
from distributary.protocols.mqtt.engine._listener import (
    WRITTEN,
    End,
    Granted,
    MqttListener,
    TooLargeError,
)
from distributary.protocols.mqtt.engine._packets import (
    FAILURE,
    PACKET_BYTES_MAX,
    PUBACK,
    PUBCOMP,
    PUBLISH,
    PUBREC,
    PUBREL,
    Connack,
    Frame,
    MqttLogin,
    Publication,
    PublishTarget,
    Version,
)
from distributary.protocols.mqtt.engine._properties import STRING_BYTES_MAX, PacketError, variable

_SILENT_TICKS_MAX: Final = 3
"""Half keepalive intervals without a byte from the broker before the connection counts as lost."""

_BEFORE_LOGIN: Final = frozenset({_packets.CONNACK, _packets.DISCONNECT})
"""Packets that a broker may send first (3.2, 4.13)."""

HELD_BYTES_MAX: Final = 64 * 1024
"""Bytes of acknowledgements and pings buffered while the socket is full. Beyond, reading pauses
until the buffer is empty: a broker that provokes answers and does not read them would fill the
memory. Answers have four bytes, so a window of messages stays far below."""

UNSENT_BYTES_MAX: Final = 64 * 1024 * 1024
"""Limit of the write buffer, bytes; beyond, the connection is ended: as much as all events that a
tenant has in flight in a partition (``Limits.held_bytes_total_max``). Only a broker that
acknowledges messages and does not read them reaches it."""

UNASKED_MAX: Final = 1_000
"""Packets between two pings that answer no message and no subscription; beyond, the connection is
ended. Usual is one, PINGRESP. A flood of them would take the whole loop that delivers to all."""

_OVERSIZED_HEAD_BYTES: Final = 2 + STRING_BYTES_MAX + 2
"""Bytes read of a message that is too large: its topic and identifier, to acknowledge it by."""

Answer = TypeVar("Answer")


class MqttConnection(asyncio.Protocol, Generic[Token]):
    """The client side of one MQTT connection. Runs on one event loop.

    Args:
        login: Contents of CONNECT.
        listener: Called with answers, messages and the end.

    Attributes:
        end: Why the connection was lost; None if it is open or ``close`` was called.
        in_flight: Published messages without an answer.
        packet_bytes_max: Largest packet that the broker accepts.
    """

    def __init__(self, login: MqttLogin, listener: MqttListener[Token]) -> None:
        self._login = login
        self._version = login.version
        self._listener = listener
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._closed = False
        self._gone = self._loop.create_future()
        self.end: End | None = None
        self._opening: asyncio.Future[Connack | None] = self._loop.create_future()
        self._subscribing: asyncio.Future[Granted | None] = self._loop.create_future()
        self._logged_in = False
        self._watched = False  # whether ``ended`` reports the end; else a pending call raises it
        self.packet_bytes_max = PACKET_BYTES_MAX
        self._in = bytearray()
        self._skip_bytes = 0  # of a message that is too large
        self._out: list[bytes] = []
        self._choked = False
        self._held_bytes = 0
        self._flying: InFlight[Token] = InFlight()
        self._timer: asyncio.TimerHandle | None = None
        self._tick_s = login.keepalive_s / 2
        self._heard = False
        self._silent_ticks = 0
        self._unasked = 0
        self._unawaited = _packets.unawaited(kept=not login.clean)
        self._owner_pauses = False
        self._paused = False
        self._takers: dict[int, Callable[[int, bytes], None]] = {
            _packets.CONNACK: self._take_connack,
            PUBLISH: self._take_publish,
            PUBACK: self._take_puback,
            PUBREC: self._take_pubrec,
            PUBREL & 0xF0: self._take_pubrel,
            PUBCOMP: self._take_pubcomp,
            _packets.SUBACK: self._take_suback,
            _packets.PINGRESP: self._take_pingresp,
            _packets.DISCONNECT: self._take_disconnect,
        }

    @property
    def in_flight(self) -> int:
        """Published messages without an answer."""
        return len(self._flying)

    # -- opening and closing ------------------------------------------------------------------

    async def opened(self) -> Connack:
        """Wait for CONNACK, whatever its code.

        Raises:
            TransportError: The connection ended before it, or right after a CONNACK with code 0.
        """
        connack = await self._opening
        if connack is None or (connack.code == 0 and self.end is not None):
            raise self._error()
        self._watched = True
        return connack

    async def subscribe(self, topic_filter: str, qos: int) -> Granted:
        """Subscribe, and wait for SUBACK. One at a time.

        Raises:
            TransportError: The connection ended first.
            ValueError: *topic_filter* cannot be encoded.
        """
        packet = _packets.subscribe(self._version, self._flying.free_id(), topic_filter, qos)
        if self._closed:
            raise self._error()
        answer: asyncio.Future[Granted | None] = self._loop.create_future()
        self._subscribing = answer
        self._unawaited = _packets.NO_ANSWERS
        self._watched = False
        self._write(packet)
        granted = await answer
        if granted is None or self.end is not None:
            raise self._error()
        self._watched = True
        return granted

    def _error(self) -> TransportError:
        return (self.end or End("closed", "The connection was closed")).error()

    async def close(self) -> None:
        """Send DISCONNECT, close the connection, and wait until it is closed. May be cancelled.

        May be called after the end too. Has no deadline: a broker that does not read, or omits its
        TLS close_notify, can delay it.
        """
        transport = self._transport
        self._stop()
        if transport is None:
            return
        try:
            if not transport.is_closing():
                transport.write(_packets.disconnect())
            transport.close()
            await asyncio.shield(self._gone)
        finally:
            transport.abort()

    def abort(self) -> None:
        """Close at once, without DISCONNECT; also before there is a connection."""
        self._stop()
        if self._transport is not None:
            self._transport.abort()

    def _stop(self) -> None:
        """Cancel timers, resolve pending calls, and drop buffered and unanswered messages."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._out.clear()
        _resolve(self._opening, None)
        _resolve(self._subscribing, None)
        self._flying.clear()

    def _finish(self, end: End) -> None:
        """Report a lost connection to the listener or the pending call."""
        if self._closed:
            return
        self.end = end
        if self._watched:
            self._listener.ended(end)  # before ``_stop``: it may read ``in_flight``
        self._stop()
        if self._transport is not None:
            self._transport.abort()

    # -- publishing ---------------------------------------------------------------------------

    def publish(
        self, target: PublishTarget, properties: bytes, payload: bytes, token: Token
    ) -> None:
        """Send a message; the listener gets *token* back with the answer.

        All messages of one loop iteration are written together, at its end.

        Args:
            target: From ``target``, for the destination.
            properties: Properties of this message, encoded, without their length; ignored in
                MQTT 3.
            payload: The payload.
            token: The caller's key of the message; not None.

        Raises:
            TooLargeError: The broker does not accept such a size, or no packet can hold it.
        """
        first, topic, qos, fixed = target
        length = len(topic) + len(payload)
        block = b""
        if self._version is Version.V5:
            block = b"".join((variable(len(fixed) + len(properties)), fixed, properties))
            length += len(block)
        if qos:
            length += 2
        written_length = variable(length)
        if 1 + len(written_length) + length > self.packet_bytes_max:
            raise TooLargeError(f"the broker takes packets of {self.packet_bytes_max} bytes")
        packet_id = self._flying.add(qos, token)
        head = b"".join((bytes((first,)), written_length, topic, packet_id, block))
        if not self._out:
            self._loop.call_soon(self._flush)
        self._out += (head, payload)

    def _write(self, packet: bytes) -> None:
        if not self._out:
            self._loop.call_soon(self._flush)
        self._out.append(packet)
        if self._choked:
            self._held_bytes += len(packet)
            if self._held_bytes > HELD_BYTES_MAX:
                self._read_or_pause()

    def _flush(self) -> None:
        if self._closed or self._transport is None or not self._out:
            return
        block = b"".join(self._out)
        self._out.clear()
        self._flying.flush()
        self._transport.write(block)
        if not self._choked:
            self._settle_written()
        elif self._transport.get_write_buffer_size() > UNSENT_BYTES_MAX:
            self._finish(End("reset", "The broker acknowledges messages without reading them"))

    def _settle_written(self) -> None:
        if self._transport is None or self._transport.is_closing():
            return  # asyncio dropped it; ``connection_lost`` follows
        for token in self._flying.take_written():
            self._listener.settled(token, WRITTEN, "")

    def pause_writing(self) -> None:
        """The write buffer is full; see ``asyncio.Protocol``."""
        self._choked = True

    def resume_writing(self) -> None:
        """The write buffer is empty; see ``asyncio.Protocol``."""
        self._choked = False
        self._held_bytes = 0
        if not self._closed:
            self._read_or_pause()
            self._settle_written()

    # -- receiving ----------------------------------------------------------------------------

    def acknowledge(self, publication: Publication) -> None:
        """Send PUBACK or PUBREC for *publication*. Call it in the order of arrival (4.6)."""
        if publication.qos and not self._closed:
            first = PUBACK if publication.qos == 1 else PUBREC
            self._write(_packets.acknowledgement(first, publication.packet_id))

    def pause_reading(self) -> None:
        """Stop reading from the socket until ``resume_reading``."""
        self._owner_pauses = True
        self._read_or_pause()

    def resume_reading(self) -> None:
        """Undo ``pause_reading``."""
        self._owner_pauses = False
        self._read_or_pause()

    def _read_or_pause(self) -> None:
        if self._transport is None or self._closed:
            return
        pauses = self._owner_pauses or self._held_bytes > HELD_BYTES_MAX
        if pauses != self._paused:
            self._paused = pauses
            if pauses:
                self._transport.pause_reading()
            else:
                self._transport.resume_reading()

    # -- the wire -----------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send CONNECT; see ``asyncio.Protocol``."""
        self._transport = wire = cast("asyncio.Transport", transport)
        if self._closed:  # closed while dialling
            wire.abort()
            return
        # ``_choked`` then means that any byte is buffered, so QoS 0 is settled once all are sent.
        # Not 0: TLS would call an empty buffer full. TLS does not count bytes that it has passed
        # on, so one block may be buffered below it unnoticed; the next one is not.
        wire.set_write_buffer_limits(high=1, low=0)
        self._tick_later()
        wire.write(_packets.connect(self._login))

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection was lost; see ``asyncio.Protocol``."""
        if not self._gone.done():
            self._gone.set_result(None)
        why = f": {exc}" if exc is not None else ""
        self._finish(End("reset", f"The broker ended the connection{why}"))

    def data_received(self, data: bytes) -> None:
        """Parse bytes from the broker; see ``asyncio.Protocol``."""
        if self._closed:
            return
        self._heard = True
        buffer = self._in
        buffer += data
        if self._skip_bytes:
            skipped = min(self._skip_bytes, len(buffer))
            self._skip_bytes -= skipped
            del buffer[:skipped]
        try:
            taken = self._take_all(buffer)
        except PacketError as error:
            self._finish(End("protocol", f"The broker speaks no MQTT: {error}"))
            return
        del buffer[:taken]

    def _take_all(self, buffer: bytearray) -> int:
        """Handle every complete packet. Returns their bytes."""
        at, size = 0, len(buffer)
        if not self._logged_in and size and buffer[0] & 0xF0 not in _BEFORE_LOGIN:
            raise PacketError("it does not begin with CONNACK")
        while at < size and not self._closed:
            if buffer[at] == PUBACK and size - at >= 4 and buffer[at + 1] == 2:
                # The fast path: a PUBACK without a reason code.
                token = self._flying.acked.pop(buffer[at + 2] << 8 | buffer[at + 3], None)
                at += 4
                if token is None:
                    self._count_unasked()
                else:
                    self._listener.settled(token, 0, "")
                continue
            found = _packets.frame(buffer, at)
            if found is None:
                break
            if found.end - found.start > self._login.packet_bytes_max:
                taken = self._take_oversized(buffer, found)
                if not taken:
                    break
                at = taken
                continue
            if found.end > size:
                break
            at = found.end
            self._take(found.first, bytes(buffer[found.start : found.end]))
        return at

    def _take_oversized(self, buffer: bytearray, found: Frame) -> int:
        """Skip a message that is too large. Returns its end in *buffer*; 0: wait for more bytes."""
        if found.first & 0xF0 != PUBLISH:
            raise PacketError("a packet is larger than was agreed")
        head_end = min(found.end, found.start + _OVERSIZED_HEAD_BYTES)
        if len(buffer) < head_end:
            return 0
        head = bytes(buffer[found.start : head_end])
        self._skip_bytes = max(0, found.end - len(buffer))
        publication = _packets.read_publication(
            self._version, found.first, head, payload_taken=False
        )
        if PUBLISH in self._unawaited:
            self._count_unasked()
        self._listener.received(publication)
        return min(found.end, len(buffer))

    def _take(self, first: int, body: bytes) -> None:
        """Dispatch one packet by its type."""
        kind = first & 0xF0
        take = self._takers.get(kind)
        if take is None:
            raise PacketError(f"a packet that does not belong here: 0x{first:02X}")
        if kind in self._unawaited:
            self._count_unasked()
        take(first, body)

    def _count_unasked(self) -> None:
        self._unasked += 1
        if self._unasked > UNASKED_MAX:
            raise PacketError(f"more than {UNASKED_MAX:,} packets that answer nothing")

    def _take_publish(self, first: int, body: bytes) -> None:
        self._listener.received(_packets.read_publication(self._version, first, body))

    def _take_puback(self, _first: int, body: bytes) -> None:
        self._settle(self._flying.acked, body)

    def _take_pubcomp(self, _first: int, body: bytes) -> None:
        self._settle(self._flying.released, body)

    def _take_pubrel(self, _first: int, body: bytes) -> None:
        packet_id, _, _ = _packets.read_acknowledgement(self._version, body)
        self._write(_packets.acknowledgement(PUBCOMP, packet_id))

    def _take_suback(self, _first: int, body: bytes) -> None:
        _, code, text = _packets.read_suback(self._version, body)
        _resolve(self._subscribing, Granted(code, text))

    def _take_disconnect(self, _first: int, body: bytes) -> None:
        if self._version is Version.V3:
            raise PacketError("DISCONNECT from a broker of MQTT 3")
        code, text = _packets.read_disconnect(body)
        why = f"The broker ended the connection: 0x{code:02X} {text}".rstrip()
        self._finish(End("reset", why, code))

    def _take_pingresp(self, _first: int, _body: bytes) -> None:
        """Ignored: every byte received resets the keepalive."""

    def _settle(self, waiting: dict[int, Token], body: bytes) -> None:
        packet_id, code, text = _packets.read_acknowledgement(self._version, body)
        token = waiting.pop(packet_id, None)
        if token is None:
            self._count_unasked()
        else:
            self._listener.settled(token, code, text)

    def _take_pubrec(self, _first: int, body: bytes) -> None:
        packet_id, code, text = _packets.read_acknowledgement(self._version, body)
        token = self._flying.received.pop(packet_id, None)
        if token is None:
            self._count_unasked()
            return
        if code >= FAILURE:
            self._listener.settled(token, code, text)
            return
        self._flying.released[packet_id] = token
        self._write(_packets.acknowledgement(PUBREL, packet_id))

    def _take_connack(self, _first: int, body: bytes) -> None:
        if self._logged_in:
            raise PacketError("a second CONNACK")
        connack = _packets.read_connack(self._version, body)
        self._logged_in = True
        numbers = connack.properties.numbers
        said_bytes = numbers.get(_properties.MAXIMUM_PACKET_SIZE, PACKET_BYTES_MAX)
        self.packet_bytes_max = min(said_bytes, PACKET_BYTES_MAX)
        asked_s = numbers.get(_properties.SERVER_KEEPALIVE, 0)
        if asked_s and asked_s / 2 < self._tick_s:
            self._tick_s = asked_s / 2
            self._tick_later()
        _resolve(self._opening, connack)

    def _tick_later(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(self._tick_s, self._tick)

    def _tick(self) -> None:
        """Send PINGREQ, or end a connection that was silent for too long."""
        quiet = not self._heard and not self._owner_pauses  # no bytes arrive while paused
        self._silent_ticks = self._silent_ticks + 1 if quiet else 0
        self._heard, self._unasked = False, 0
        if self._silent_ticks >= _SILENT_TICKS_MAX:
            self._finish(End("reset", "The broker has fallen silent"))
            return
        self._tick_later()
        if self._logged_in:
            self._write(_packets.PINGREQ)


def _resolve(future: asyncio.Future[Answer | None], answer: Answer | None) -> None:
    """Resolve *future*, unless it is done or cancelled."""
    if not future.done():
        future.set_result(answer)
