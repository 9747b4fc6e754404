"""What is kept of one AMQP connection at most."""

from typing import Final

FRAME_BYTES_MAX: Final = 64 * 1024
"""Largest frame that we take: messages of the usual size in one, and what a connection of a
hostile peer may have us hold unread."""

SESSION_BYTES_MAX: Final = 4 * 1024 * 1024
"""What a peer may send on one session ahead of our reading, bytes."""

SESSIONS_MAX: Final = 256
"""Sessions of one connection; each of our links has its own, since many servers end the session of
a link that they refuse."""

PEER_LINKS_MAX: Final = 128
"""Links that a peer may have open, those that were refused and that it has not ended among them:
each costs some 2 KiB here, and twice its name, which may be as long as a frame."""

MESSAGE_BYTES_MAX: Final = 2 * 1024 * 1024
"""Largest message taken: the largest event is 1 MiB by default, and attributes may be as large."""
