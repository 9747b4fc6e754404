"""Which executor of a Spark cluster this Python worker belongs to."""

import functools
import itertools
import os
import socket
from pathlib import Path
from typing import Final

import msgspec

from distributary.partitions.guardians import jvm_of_worker

_OPTIONS: Final = {"--executor-id": "executor", "--app-id": "application"}
"""Of the command line of an executor's JVM, whatever started it."""


class LeaseHolder(msgspec.Struct, frozen=True, kw_only=True):
    """Who holds the lease of a partition, as its row says it, in JSON.

    Attributes:
        host: Name of the machine.
        pid: Process id of the Python worker there.
        application: Spark's id of the application; empty: unknown.
        executor: Spark's id of the executor; empty: unknown.
    """

    host: str
    pid: int
    application: str = ""
    executor: str = ""

    def encode(self) -> str:
        """Returns it for the row."""
        return msgspec.json.encode(self).decode()


def lease_holder_of(text: str) -> LeaseHolder | None:
    """Returns what *text* says; None: it says something else."""
    try:
        return msgspec.json.decode(text, type=LeaseHolder)
    except msgspec.MsgspecError:
        return None


@functools.cache
def lease_holder() -> LeaseHolder:
    """Returns who this process is."""
    named: dict[str, str] = {}
    try:
        line = Path(f"/proc/{jvm_of_worker()}/cmdline").read_bytes().decode(errors="replace")
    except OSError:
        line = ""
    words = line.split("\0")
    for option, value in itertools.pairwise(words):
        if option in _OPTIONS:
            named[_OPTIONS[option]] = value
    return LeaseHolder(host=socket.gethostname(), pid=os.getpid(), **named)


def ended_beside(holder: LeaseHolder) -> bool:
    """Whether *holder* was another worker of this executor, and its process has ended.

    Process ids mean something on one machine, and in one container: an executor is in both.
    """
    here = lease_holder()
    beside = (holder.host, holder.application, holder.executor)
    if not here.executor or beside != (here.host, here.application, here.executor):
        return False
    try:
        stat = Path(f"/proc/{holder.pid}/stat").read_text("ascii", "replace")
    except OSError:
        return True
    return stat.rpartition(")")[2].split()[:1] == ["Z"]  # killed, and not yet seen by its parent
