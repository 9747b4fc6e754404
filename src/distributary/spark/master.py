"""Where Spark runs: what a master URL comes to, and whether it can run the pipeline at all.

Callers: ``server`` before anything is started, ``driver`` for what Spark gets. Imports no pyspark.

A partition is one task (its reader and its writer are one stage), and the task runs as long as the
pipeline does. So with fewer task slots than partitions some are never read, and nothing says so:
that is refused here.
"""

import os
import re
import socket
from collections.abc import Callable, Mapping
from typing import Final

from distributary.core.errors import SettingsError

AUTO: Final = "auto"
"""Stands for a master on this machine with a slot for each partition."""

TASK_FAILURES_MAX: Final = 1_000
"""Failures of one partition's task in one epoch before Spark ends those of all others too. Each
kill of a worker counts; what a restart does not mend waits inside its task and counts once."""

ANSWER_S: Final = 10.0
"""A Spark master that takes longer to answer is refused."""

_LOCAL: Final = re.compile(r"local(?:\[\s*(\d+|\*)\s*(?:,\s*(\d+)\s*)?\])?")
_LOCAL_CLUSTER: Final = re.compile(r"local-cluster\[\s*(\d+)\s*,\s*(\d+)\s*,\s*\d+\s*\]")
_ADDRESS: Final = re.compile(r"(?:spark|k8s(?:://https?)?)://([^/]+)")

Dial = Callable[[tuple[str, int], float], None]
"""Opens and closes a connection to (host, port) within so many seconds; raises ``OSError``."""


def is_local(master: str) -> bool:
    """Whether tasks run in the driver's own JVM."""
    return master == AUTO or _LOCAL.fullmatch(master) is not None


def resolve(master: str, partitions: int) -> str:
    """The master that Spark is given for *master*.

    Spark ends every task after one failure of one, unless a local master names another number.
    """
    if master == AUTO:
        return f"local[{partitions},{TASK_FAILURES_MAX}]"
    found = _LOCAL.fullmatch(master)
    if found is None or found[2] is not None:
        return master
    return f"local[{found[1] or 1},{TASK_FAILURES_MAX}]"


def slots(master: str, conf: Mapping[str, str]) -> int | None:
    """Task slots of *master*; None where Spark alone can tell.

    Args:
        master: As in the settings, not ``auto``.
        conf: The operator's Spark properties.
    """
    cluster = _LOCAL_CLUSTER.fullmatch(master)
    if cluster is not None:
        cores = int(cluster[1]) * int(cluster[2])
    else:
        found = _LOCAL.fullmatch(master)
        if found is None:
            return None
        cores = (os.cpu_count() or 1) if found[1] == "*" else int(found[1] or 1)
    per_task = conf.get("spark.task.cpus", "1")
    return cores // int(per_task) if per_task.isdecimal() and int(per_task) else cores


def too_few(master: str, found: int, partitions: int) -> SettingsError:
    """What to say where *master* has *found* slots only."""
    return SettingsError(
        f"the Spark master {master} has {_count(found, 'task slot')}, and the log has"
        f" {_count(partitions, 'partition')}: each takes one slot for as long as the pipeline runs."
        f" Give it {partitions}, for example --spark-master 'local[{partitions}]', or leave"
        " --spark-master out"
    )


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _dial(address: tuple[str, int], timeout_s: float) -> None:
    socket.create_connection(address, timeout_s).close()


def check_master(master: str, partitions: int, conf: Mapping[str, str], dial: Dial = _dial) -> None:
    """Refuse what is known to be unable to run *partitions*, before anything is started.

    Args:
        master: As in the settings.
        partitions: Of the log.
        conf: The operator's Spark properties.
        dial: Reaches a master on the network; a test's own.

    Raises:
        SettingsError: It has too few slots, or does not answer. Says what to set.
    """
    name = f"local[{partitions}]" if master == AUTO else master
    found = slots(name, conf)
    if found is not None:
        if found < partitions:
            raise too_few(master, found, partitions)
        return
    address = _ADDRESS.match(master)
    if address is None:
        return
    reasons: list[str] = []
    for place in address[1].split(","):
        host, _, port = place.rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port) <= 65535:
            reasons.append(f"{place}: expected host:port")
            continue
        try:
            dial((host.strip("[]"), int(port)), ANSWER_S)
        except OSError as error:
            reasons.append(f"{place}: {error.strerror or error}")
        else:
            return
    raise unanswered(master, "; ".join(reasons))


def unanswered(master: str, reason: str) -> SettingsError:
    """What to say where *master* does not answer."""
    return SettingsError(
        f"the Spark master {master} does not answer ({reason}). Start it, or name another:"
        " --spark-master; without it the pipeline runs on this machine"
    )
