"""Limits of memory for one AMQP connection."""

from typing import Final

FRAME_BYTES_MAX: Final = 64 * 1024
"""Largest frame accepted: holds messages of the usual size, and limits what a hostile peer can make
us buffer."""

SESSION_BYTES_MAX: Final = 4 * 1024 * 1024
"""Incoming window of one session, bytes."""

SESSIONS_MAX: Final = 256
"""Sessions of one connection: one for each of our links, since many servers end the session of a
link that they refuse."""

PEER_LINKS_MAX: Final = 128
"""Open links of a peer, including refused ones that it has not ended: each costs some 2 KiB, and
twice its name, which may be as long as a frame."""

MESSAGE_BYTES_MAX: Final = 2 * 1024 * 1024
"""Largest message accepted: events have 1 MiB by default, and attributes may add as much."""
