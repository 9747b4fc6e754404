"""The pipeline's driver process, for ``serve`` and for a node."""

import os
from collections.abc import Callable, Mapping
from typing import NamedTuple

import msgspec

from distributary import spark
from distributary.core.cluster import SharedPlaces, encode_places
from distributary.datadir import DataDir
from distributary.partitions import SessionSettings
from distributary.server.nodes import Leader
from distributary.server.processes.pipeline_process import PipelineStart, spark_environ
from distributary.server.processes.supervision.children import Child, program
from distributary.server.settings import Settings, own_name
from distributary.sources import secret_variables


class Jvm(NamedTuple):
    """The JVM that the driver process starts.

    Attributes:
        environ: Environment variables by which it finds Java.
        class_archive: Archive of the JVM's classes; empty: there is none.
    """

    environ: Mapping[str, str]
    class_archive: str


def find_jvm(settings: Settings, paths: DataDir) -> Jvm:
    """Returns the JVM of this machine.

    Raises:
        SettingsError: There is no usable Java.
    """
    java = spark.find_java(os.environ, chosen=settings.java_home)
    environ = spark.java_environment(java, paths.run / "java")
    return Jvm(environ, spark.usable_class_archive(java))


def pipeline_child(
    settings: Settings,
    paths: DataDir,
    history: str,
    session: SessionSettings,
    *,
    partitions: int,
    jvm: Jvm,
    line: Callable[[str], None],
    ended: Callable[[int], bool],
    worked: Callable[[int, int], bool],
    shared: SharedPlaces | None = None,
) -> Child:
    """Returns the driver process, not started.

    Args:
        settings: The settings.
        paths: Paths of the data directory.
        history: Where history lies; empty: none is kept.
        session: Settings of owners, which the driver passes on.
        partitions: Number of partitions of the log.
        jvm: What it starts.
        line: Called with each line of its standard error.
        ended: See ``Child``.
        worked: See ``Child``.
        shared: Where log and state lie that several nodes share; None: in the data directory.
    """
    address = settings.node_address or ""
    holder = "" if shared is None else Leader(name=own_name(settings), address=address).holder()
    driver = spark.DriverSettings(
        data_dir=str(paths.root),
        session=msgspec.json.encode(session).decode(),
        history=history,
        history_outbox=session.history != history,
        history_age_max_s=settings.history_age_max_s,
        history_bytes_max=settings.history_bytes_max,
        partitions=partitions,
        master=settings.spark_master,
        epoch_s=settings.epoch_s,
        drain_s=settings.drain_s,
        class_archive=jvm.class_archive,
        host=address.rpartition(":")[0],
        holder=holder,
    )
    start = PipelineStart(driver=driver, log_level=settings.log_level, waits=shared is not None)
    return Child(
        "pipeline",
        program("distributary.server.processes.pipeline_process", start),
        line=line,
        environ={**jvm.environ, **spark_environ(settings.spark_conf), **encode_places(shared)},
        withheld=secret_variables(settings.sources),
        ended=ended,
        worked=worked,
    )
