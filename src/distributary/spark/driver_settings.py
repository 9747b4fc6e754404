"""Settings of the driver: what ``server`` tells the process that runs Spark. Imports no pyspark."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverSettings:
    """Settings of the driver. They hold no secret: every user of the machine may see them.

    Attributes:
        data_dir: The data directory.
        session: For the owners: ``SessionSettings`` as JSON. The driver passes them on, and its
            start does not wait for what owners import.
        history: Where history lies, an absolute path or a URL; empty: none is kept.
        history_age_max_s: Age above which its files are deleted, seconds.
        history_bytes_max: Size above which its oldest files are deleted; 0: unlimited.
        partitions: Of the log.
        master: Spark master.
        epoch_s: Length of an epoch, seconds.
        drain_s: Longest orderly stop, seconds.
        class_archive: Archive of the JVM's classes; empty: there is none.
        host: Where executors of a cluster reach this node; empty: they are on this machine.
        holder: What the lease of those who lead says where this node has it; empty: it is alone.
        history_outbox: Whether owners write into the outbox, from which files are moved.
    """

    data_dir: str
    session: str
    history: str
    history_age_max_s: float
    history_bytes_max: int
    partitions: int
    master: str
    epoch_s: float
    drain_s: float
    class_archive: str = ""
    host: str = ""
    holder: str = ""
    history_outbox: bool = False


@dataclass(frozen=True, slots=True)
class Withheld:
    """What the driver needs beside its settings, and no argument of a process may show.

    Attributes:
        spark_conf: The operator's own Spark settings.
        entrusted: What executors of a cluster get, ``Entrusted`` as JSON; empty: all is in the data
            directory, which executors see.
    """

    spark_conf: Mapping[str, str] = field(default_factory=dict, repr=False)
    entrusted: bytes = field(default=b"", repr=False)
