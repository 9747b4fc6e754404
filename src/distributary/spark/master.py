"""Resolves Spark master URLs, and refuses a master with too few task slots for the log.

Callers: ``server`` before it starts anything, ``session`` for Spark's URL. Imports no pyspark.

A partition needs one task slot for as long as the query runs. With fewer slots than partitions
Spark would silently never deliver some of them.
"""

import os
import re
import socket
from collections.abc import Callable, Mapping
from typing import Final

from distributary.core.errors import SettingsError

AUTO: Final = "auto"
"""A local master with a slot for each partition."""

TASK_FAILURES_MAX: Final = 1_000
"""Failures of one partition's task in one epoch before Spark ends those of all others too. Each
kill of a worker counts; a partition that cannot be owned waits inside its task and counts once,
unless its executor alone is cut off from the log: then each try counts, after longer and longer
pauses."""

ANSWER_S: Final = 30.0
"""Longest wait for a response of the Spark master; a slower one is refused."""

LOOK_S_MAX: Final = 3.0
"""Longest wait of who looks whether the master is there, and looks again."""

_LOCAL: Final = re.compile(r"local(?:\[\s*(\d+|\*)\s*(?:,\s*(\d+)\s*)?\])?")
_LOCAL_CLUSTER: Final = re.compile(r"local-cluster\[\s*(\d+)\s*,\s*(\d+)\s*,\s*\d+\s*\]")
_ADDRESS: Final = re.compile(r"(?:spark|k8s(?:://https?)?)://([^/]+)")

Dial = Callable[[tuple[str, int], float], None]
"""Opens and closes a connection to (host, port) within a timeout in seconds; raises ``OSError``."""


def is_local(master: str) -> bool:
    """Whether tasks run in the driver's own JVM."""
    return master == AUTO or _LOCAL.fullmatch(master) is not None


def is_standalone(master: str) -> bool:
    """Whether it is Spark's own master, whose workers leave alone what has outlived an executor."""
    return master.startswith("spark://")


def resolve(master: str, partitions: int) -> str:
    """Returns the master URL for Spark.

    On a local master Spark ends all tasks after one failure, unless the URL has another number.
    """
    if master == AUTO:
        return f"local[{partitions},{TASK_FAILURES_MAX}]"
    found = _LOCAL.fullmatch(master)
    if found is None or found[2] is not None:
        return master
    return f"local[{found[1] or 1},{TASK_FAILURES_MAX}]"


def slots(master: str, conf: Mapping[str, str]) -> int | None:
    """Returns the task slots of *master*; None if only Spark can count them.

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
    """Returns the error for a *master* with only *found* slots."""
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
    """Refuse a master that cannot run *partitions*, before anything is started.

    Args:
        master: As in the settings.
        partitions: Of the log.
        conf: The operator's Spark properties.
        dial: Reaches a master on the network; replaced in tests.

    Raises:
        SettingsError: It has too few slots, or does not answer; the message names the setting.
    """
    name = f"local[{partitions}]" if master == AUTO else master
    found = slots(name, conf)
    if found is not None:
        if found < partitions:
            raise too_few(master, found, partitions)
        return
    if reasons := _unreached(master, ANSWER_S, dial):
        raise unanswered(master, "; ".join(reasons))


def answers(master: str, dial: Dial = _dial) -> bool:
    """Whether *master* can be reached now; True where it has no address.

    Args:
        master: Its URL.
        dial: As ``check_master`` has it.
    """
    return not _unreached(master, LOOK_S_MAX, dial)


def _unreached(master: str, timeout_s: float, dial: Dial) -> list[str]:
    """Returns why each address of *master* is not reached; empty: one is, or there is none."""
    address = _ADDRESS.match(master)
    reasons: list[str] = []
    for place in address[1].split(",") if address is not None else ():
        host, _, port = place.rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port) <= 65535:
            reasons.append(f"{place}: expected host:port")
            continue
        try:
            dial((host.strip("[]"), int(port)), timeout_s)
        except OSError as error:
            reasons.append(f"{place}: {error.strerror or error}")
        else:
            return []
    return reasons


def unanswered(master: str, reason: str) -> SettingsError:
    """Returns the error for a *master* that does not answer."""
    return SettingsError(
        f"the Spark master {master} does not answer ({reason}). Start it, or name another:"
        " --spark-master; without it the pipeline runs on this machine"
    )
