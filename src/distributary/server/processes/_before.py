"""What can be found out before a start: files, folders and programs that the settings name.

Looks, and changes nothing: no port is taken, no folder made, no command run. Callers: ``cli``
(``config check``).
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import structlog

from distributary import spark
from distributary.core.clock import SystemClock
from distributary.core.errors import DistributaryError, SettingsError
from distributary.core.files import read_private
from distributary.core.log import read_folder
from distributary.datadir import DataDir
from distributary.server.processes.base import ground
from distributary.server.processes.base.cores import cores, partitions_wanted
from distributary.server.processes.base.tls import Tls, files_of
from distributary.server.processes.base.where import base, scheme_of
from distributary.server.processes.node.shared_places import look_at_passwords
from distributary.server.processes.pipeline.archive_job import check_place
from distributary.server.processes.pipeline.history import place_of
from distributary.server.processes.pipeline.issuing import issuing_of
from distributary.server.settings import Settings

UNUSABLE: Final = "These settings cannot be used:"
"""Begins an error that has a line for each fault."""

KEY_BYTES_MAX: Final = 64 * 1024
"""More than a file of keys ever has."""


def faults_before_start(settings: Settings) -> list[str]:
    """Returns a line for each reason for which ``serve`` would not start with *settings*."""
    faults: list[str] = []
    for look in _looks(settings):
        try:
            look()
        except DistributaryError as error:
            head, *more = str(error).splitlines()
            faults += more if head == UNUSABLE else [str(error)]
    return faults


def _looks(settings: Settings) -> Iterator[Callable[[], object]]:
    paths = DataDir(settings.data_dir.absolute())
    yield lambda: _look_at_folder(paths.root)
    yield lambda: ground.check_socket_path(paths.control_socket)
    yield lambda: place_of(settings.history, paths)
    yield lambda: check_place(settings.archive or "/", paths)
    yield lambda: _look_at_tls(settings)
    yield lambda: _look_at_key(settings)
    public_url = settings.public_url or base(settings.host, settings.port, scheme_of(settings))
    yield lambda: issuing_of(settings, public_url)
    yield lambda: spark.find_java(os.environ, chosen=settings.java_home)
    yield lambda: _look_at_master(settings, paths)
    yield lambda: ground.check_extras(settings)
    yield lambda: look_at_passwords(settings)


def _look_at_folder(root: Path) -> None:
    if DataDir(root).restoring.exists():
        raise SettingsError(f"data_dir: a restore to {root} did not finish: delete what is in it")
    if DataDir(root).migrated.exists():
        raise SettingsError(f"data_dir: {ground.moved_away(root)}")
    there = next(each for each in (root, *root.parents) if each.exists())
    if not there.is_dir():
        raise SettingsError(f"data_dir: {there} is no folder")
    if not os.access(there, os.W_OK | os.X_OK):
        raise SettingsError(
            f"data_dir: {there} cannot be written by this user. Make it writable, or name another"
        )


def _look_at_tls(settings: Settings) -> None:
    files = files_of(settings)
    if files is not None:
        tls = Tls(files, SystemClock(), structlog.get_logger())
        os.close(tls.fd)


def _look_at_key(settings: Settings) -> None:
    if settings.credential_key_file is not None:
        remedy = "make a new key, and send the credentials again"
        what = "the file of keys (credential_key_file)"
        read_private(settings.credential_key_file, KEY_BYTES_MAX, what=what, remedy=remedy)


def _look_at_master(settings: Settings, paths: DataDir) -> None:
    if "://" in settings.spark_master:
        return  # nobody is called
    partitions = partitions_wanted(settings, cores())
    if paths.log.exists():
        partitions = read_folder(paths.log)
    spark.check_master(settings.spark_master, partitions, settings.spark_conf)
