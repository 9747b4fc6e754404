"""Who is at the other end of a connection on loopback: the name of a member of a cluster.

Each process of a member carries ``MEMBER`` in its environment, from birth on and whoever its parent
is by now. Needs Linux (``/proc``).
"""

import contextlib
import os
import socket
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, TypeAlias

__all__ = ["MEMBER", "Address", "Peers", "member_of", "members"]

MEMBER: Final = "TESTS_MEMBER"
"""Environment variable with the name of the member that a process belongs to."""

LOOKS: Final = 5
"""How often a connection is looked for: two looks at a table that changes seldom miss the same."""

Address: TypeAlias = tuple[str, int]
"""Host and port."""

_PROC: Final = Path("/proc")


def member_of(pid: int) -> str:
    """The member that the process *pid* belongs to; empty: none, or it has ended."""
    with contextlib.suppress(OSError):
        prefix = f"{MEMBER}=".encode()
        for entry in (_PROC / str(pid) / "environ").read_bytes().split(b"\0"):
            if entry.startswith(prefix):
                return entry.removeprefix(prefix).decode()
    return ""


def members() -> Iterator[tuple[int, str]]:
    """Process id and member of each process that belongs to one."""
    for name in (path.name for path in _PROC.iterdir()):
        if name.isdecimal() and (member := member_of(int(name))):
            yield int(name), member


class Peers:
    """Finds the members behind connections; remembers which processes made the last ones."""

    def __init__(self) -> None:
        self._seen: list[int] = []

    def name(self, near: Address, far: Address) -> str:
        """The member that has the end *near* of the connection to *far*; empty: none has."""
        inode = _inode(near, far)
        if inode is None:
            return ""
        wanted = f"socket:[{inode}]"
        for pid in self._candidates():
            if _has(pid, wanted):
                if pid in self._seen:
                    self._seen.remove(pid)
                self._seen.insert(0, pid)
                return member_of(pid)
        return ""

    def _candidates(self) -> Iterable[int]:
        """Processes in the order to look at: those that connected before come first."""
        self._seen = [pid for pid in self._seen if (_PROC / str(pid)).exists()]
        yield from tuple(self._seen)
        for pid, _ in members():
            if pid not in self._seen:
                yield pid


def _has(pid: int, wanted: str) -> bool:
    """Whether the process *pid* holds the open file *wanted*."""
    with contextlib.suppress(OSError), os.scandir(_PROC / str(pid) / "fd") as entries:
        for entry in entries:
            with contextlib.suppress(OSError):
                if str(Path(entry.path).readlink()) == wanted:
                    return True
    return False


def _inode(near: Address, far: Address) -> int | None:
    """Inode of the socket at *near* that is connected to *far*; None: it is gone.

    Both ends are compared: ports are used for several connections at once, and those that ended
    stay in the table for a minute. The kernel gives the table in pieces, while it changes: what is
    not found is looked for again.
    """
    wanted = {(_v4(near), _v4(far)), (_v6(near), _v6(far))}
    for _ in range(LOOKS):
        for table in ("tcp", "tcp6"):
            for line in (_PROC / "net" / table).read_text(encoding="ascii").splitlines()[1:]:
                fields = line.split()
                if (fields[1], fields[2]) in wanted and fields[9] != "0":
                    return int(fields[9])
    return None


def _v4(address: Address) -> str:
    """An address as the kernel writes it."""
    (number,) = struct.unpack("=I", socket.inet_aton(address[0]))
    return f"{number:08X}:{address[1]:04X}"


def _v6(address: Address) -> str:
    """The same of a socket for both families of addresses."""
    return f"0000000000000000FFFF0000{_v4(address)}"
