"""What follows from a question, an answer and the time: the row of a target. Pure.

Called by ``ConsentKeeper``.
"""

from typing import Final, NamedTuple

from distributary.core.errors import TransportError
from distributary.resource import ConsentRule
from distributary.subscriptions.consent._answer import Allowed, Withheld
from distributary.subscriptions.store.consent_rows import ConsentRow, ConsentState

CONSENT_MS: Final = 86_400_000
"""How long an answered consent holds, milliseconds: a day. The target is asked again in time."""

CALLBACK_CONSENT_MS: Final = 30 * 86_400_000
"""The same by callback, milliseconds: often a person gave it, who should not have to each day."""

RENEW_SHARE: Final = 0.8
"""Share of that time after which the target is asked again: so a target may be down for five hours
just then."""

BACKOFF_MS_FIRST: Final = 10_000
"""Wait after the first question without consent, milliseconds; each further one doubles it."""

BACKOFF_MS_MAX: Final = 3_600_000
"""Longest wait between two questions, milliseconds: who never consents is asked hourly."""

JITTER_SHARE: Final = 0.1
"""A wait is lengthened by up to this share, at random; the time to a renewal is shortened."""

PRIVATE_LOOK_MS: Final = 600_000
"""Interval of looks at a name on private addresses, milliseconds. The connector refuses it as soon
as it is public; its deliveries wait until the next look."""


class Private(NamedTuple):
    """The target is on private addresses, and was not asked."""


Outcome = Allowed | Withheld | Private | TransportError
"""Result of one look at a target; the last: no answer."""


def usable(row: ConsentRow | None, rule: ConsentRule) -> ConsentRow | None:
    """*row*, if it stems from the settings in force; None: the target is as a new one."""
    if row is None or row.origin != rule.origin:
        return None
    return None if row.state == "private" and rule.mode == "always" else row


def over(row: ConsentRow, wall_ms: int) -> bool:
    """Whether *row* has a consent that has ended."""
    return row.state == "given" and wall_ms >= row.until_ms


def withheld(row: ConsentRow) -> bool:
    """Whether the target of *row* has yet to consent: nothing is sent there."""
    return row.state in ("asked", "refused")


def due_ms(row: ConsentRow) -> int:
    """Wall clock of the next step."""
    return min(row.next_ms, row.until_ms) if row.state == "given" else row.next_ms


def begun(row: ConsentRow, rule: ConsentRule, wall_ms: int, unit: float) -> ConsentRow:
    """*row* as stored before the target is looked at, so that a restart does not ask at once.

    Args:
        row: What is known of the target; perhaps of other settings.
        rule: The settings.
        wall_ms: Now.
        unit: For jitter, 0.0 to 1.0.
    """
    if usable(row, rule) is None:
        row = ConsentRow(row.target, "asked", rule.origin, since_ms=wall_ms, seq=row.seq)
    elif over(row, wall_ms):
        row = _in_state(row, "asked", wall_ms)._replace(reason="its consent has ended", until_ms=0)
    since_ms = row.since_ms or wall_ms  # of a new target, and of what earlier versions stored
    next_ms = wall_ms + _backoff_ms(row.tries + 1, unit)
    return row._replace(since_ms=since_ms, asked_ms=wall_ms, next_ms=next_ms)


def concluded(row: ConsentRow, outcome: Outcome, wall_ms: int, unit: float) -> ConsentRow:
    """*row*, as ``begun`` left it, after *outcome* at *wall_ms*."""
    if isinstance(outcome, Private):
        row = _in_state(row, "private", wall_ms)
        wait_ms = int(PRIVATE_LOOK_MS * (1.0 + JITTER_SHARE * unit))
        return row._replace(reason="", tries=0, until_ms=0, next_ms=wall_ms + wait_ms)
    if isinstance(outcome, Allowed):
        row = _in_state(row, "given", wall_ms)
        return row._replace(
            rate_per_min=outcome.rate_per_min,
            by_callback=False,
            reason="",
            tries=0,
            until_ms=wall_ms + CONSENT_MS,
            next_ms=renewal_ms(wall_ms, CONSENT_MS, unit),
        )
    tries = row.tries + 1
    row = row._replace(tries=tries, next_ms=wall_ms + _backoff_ms(tries, unit))
    if isinstance(outcome, TransportError):
        if row.state == "given":
            return row  # until it ends
        state: ConsentState = "refused" if row.state == "refused" else "asked"
        return _in_state(row, state, wall_ms)._replace(reason=f"no answer ({outcome.reason})")
    if outcome.silent and row.state == "given" and row.by_callback:
        return row  # until it ends
    return _in_state(row, "refused", wall_ms)._replace(reason=outcome.reason, until_ms=0)


def renewal_ms(wall_ms: int, lifetime_ms: int, unit: float) -> int:
    """When to ask again for a consent given at *wall_ms* for *lifetime_ms*."""
    return wall_ms + int(lifetime_ms * RENEW_SHARE * (1.0 - JITTER_SHARE * unit))


def _in_state(row: ConsentRow, state: ConsentState, wall_ms: int) -> ConsentRow:
    since_ms = row.since_ms if row.state == state else wall_ms
    return row._replace(state=state, since_ms=since_ms)


def _backoff_ms(tries: int, unit: float) -> int:
    wait_ms = min(BACKOFF_MS_FIRST * 2 ** min(tries - 1, 30), BACKOFF_MS_MAX)
    return int(wait_ms * (1.0 + JITTER_SHARE * unit))
