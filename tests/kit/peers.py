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

Address: TypeAlias = tuple[str, int]
"""Host and port."""

_PROC: Final = Path("/proc")

_SOCK_DIAG: Final = 4
"""Netlink's family for questions about sockets: ``sock_diag(7)``."""
_BY_FAMILY: Final = 20
_REQUEST: Final = 1
_ANY: Final = 0xFFFFFFFF
_HEAD: Final = struct.Struct("=IHHII")
"""``struct nlmsghdr``."""
_INODE_AT: Final = 68
"""Offset in ``struct inet_diag_msg``: its last field."""


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

    The kernel is asked for this one: its table has thousands of lines on a machine that does other
    things too, and while a wire is cut those who lost it dial again and again.
    """
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG) as asked:
        ends = _packed(near) + _packed(far)
        one = struct.pack(">2H", near[1], far[1]) + ends + struct.pack("=I2I", 0, _ANY, _ANY)
        body = struct.pack("=4BI", socket.AF_INET, socket.IPPROTO_TCP, 0, 0, _ANY) + one
        head = struct.pack("=IHHII", _HEAD.size + len(body), _BY_FAMILY, _REQUEST, 1, 0)
        asked.sendto(head + body, (0, 0))
        answer = asked.recv(8192)
    _, kind, *_ = _HEAD.unpack_from(answer)
    if kind != _BY_FAMILY:
        return None
    (inode,) = struct.unpack_from("=I", answer, _HEAD.size + _INODE_AT)
    return int(inode) or None


def _packed(address: Address) -> bytes:
    return socket.inet_aton(address[0]) + bytes(12)
