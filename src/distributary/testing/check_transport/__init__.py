"""Contract suite of ``deliver.Transport``.

Called by ``tests/contract`` and ``tests/brokers`` for every transport here, and by authors of
further ones::

    @pytest.mark.parametrize("check", check_transport.CHECKS, ids=lambda c: c.__name__)
    def test_my_transport(check):
        asyncio.run(check(make_rig))

A rig is a transport with a far side of configurable behaviour (``Rig``).
"""

from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from distributary.testing.check_transport import (
    _connections,
    _delivery,
    _end,
    _failures,
    _replies,
)
from distributary.testing.check_transport._rig import (
    Answers,
    Behaviour,
    Format,
    Make,
    Rig,
    a_reply,
    an_event,
)

__all__ = [
    "CHECKS",
    "CHECKS_OF_CONNECTIONS",
    "CHECKS_OF_DELIVERIES",
    "Answers",
    "Behaviour",
    "Check",
    "Format",
    "Make",
    "Rig",
    "a_reply",
    "an_event",
    "check_transport",
]

Check: TypeAlias = Callable[[Make], Awaitable[None]]
"""Called with a factory of rigs; raises ``AssertionError`` where a promise is broken."""

CHECKS: Final[tuple[Check, ...]] = (
    *_delivery.CHECKS,
    *_replies.CHECKS,
    *_failures.CHECKS,
    *_connections.CHECKS,
    *_end.CHECKS,
)
"""Every check; each raises ``AssertionError`` where a promise is broken."""

CHECKS_OF_DELIVERIES: Final[tuple[Check, ...]] = _delivery.CHECKS
"""Those of ``CHECKS`` that depend on how an event is written: content mode, protocol's version."""

CHECKS_OF_CONNECTIONS: Final[tuple[Check, ...]] = _connections.CHECKS
"""Those of ``CHECKS`` that break connections under way: what is in flight depends on the protocol's
way to acknowledge."""


async def check_transport(make: Make) -> None:
    """Run every check, each on new rigs.

    Args:
        make: Makes a rig.

    Raises:
        AssertionError: The transport breaks a promise.
    """
    for check in CHECKS:
        await check(make)
