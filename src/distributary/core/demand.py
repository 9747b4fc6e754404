"""Demands: what people ask of the consumers of all partitions, each for its own part.

Made by the control process, which stores them; read by every consumer in the order of their
numbers.
"""

from typing import Any, Final, Literal, NamedTuple

import msgspec

DemandKind = Literal["resume", "redrive", "purge", "retry", "replay", "cancel"]

RATE_MIN: Final = 0.001
"""Least events a second that may be asked for: whoever wants fewer pauses."""
RATE_MAX: Final = 100_000.0
"""Highest rate limit of a run, a second: above what any machine delivers."""


class DemandDetails(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a demand says beside its kind and its route.

    Attributes:
        by: Who asked, for people.
        ids: Dead letters by partition and number (``0-17``); empty: all of the route.
        filters: Filter expressions that the event must pass; all of them.
        since_ms: Of dead letters: kept then or later; of a replay: records appended then or
            later. Wall clock, milliseconds; None: from the oldest.
        until_ms: Likewise, before this time; None: until the time of the request.
        rate: Most events a second, in all partitions together; None: as many as may.
        partitions: Number of partitions that share the rate.
        dry: Only count.
        of: Number of the demand to cancel.
    """

    by: str = ""
    ids: tuple[str, ...] = ()
    filters: tuple[dict[str, Any], ...] = ()
    since_ms: int | None = None
    until_ms: int | None = None
    rate: float | None = None
    partitions: int = 1
    dry: bool = False
    of: int = 0

    @property
    def share(self) -> float | None:
        """Most events a second in one partition; a dry run sends none, and counts at any pace."""
        return None if self.rate is None or self.dry else self.rate / max(self.partitions, 1)


NO_DETAILS: Final = DemandDetails()

_decoder = msgspec.json.Decoder(DemandDetails)


def encode_details(details: DemandDetails) -> bytes | None:
    """Encode *details* for a store; None: there are none."""
    return None if details == NO_DETAILS else msgspec.json.encode(details)


def decode_details(stored: bytes | None) -> DemandDetails:
    """Decode what ``encode_details`` made.

    Raises:
        msgspec.MsgspecError: *stored* is something else.
    """
    return NO_DETAILS if stored is None else _decoder.decode(stored)


class Demand(NamedTuple):
    """A request to all partition consumers, each for its own partition.

    Attributes:
        seq: Its number, from 1.
        kind: ``resume``: send to a parked route again. ``redrive``: send kept dead letters again.
            ``purge``: delete them. ``retry``: make waiting retries due. ``replay``: send events of
            the log again. ``cancel``: end a run.
        route: Uid of the route; empty: all of them.
        run: Its id, for people; a repeated request has the same one.
        asked_ms: Wall clock of the request, milliseconds.
        details: What else it says.
    """

    seq: int
    kind: DemandKind
    route: str
    run: str
    asked_ms: int
    details: DemandDetails = NO_DETAILS
