"""The data directory: where things lie in it, and what its processes tell one another there.

Called by every process of a server. ``Places`` knows the names; a ``Board`` is a page of numbers
that several processes see at once; ``LiveFile`` holds the settings that change while the server
runs; ``Sickness`` keeps why a partition cannot be owned.

Hides: names of files, shared memory.
"""

from distributary.datadir._board import Board, Phase, Word, Words
from distributary.datadir._live import LiveFile, LiveSettings
from distributary.datadir._places import KEY_FILE_NAME, SOCKET_PATH_BYTES_MAX, Places
from distributary.datadir._sickness import Sickness, is_sick, sickness_of

__all__ = [
    "KEY_FILE_NAME",
    "SOCKET_PATH_BYTES_MAX",
    "Board",
    "LiveFile",
    "LiveSettings",
    "Phase",
    "Places",
    "Sickness",
    "Word",
    "Words",
    "is_sick",
    "sickness_of",
]
