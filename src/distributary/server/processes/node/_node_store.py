"""What a node makes or checks in the store before anything of it runs."""

import functools
import os
import secrets
import time
from collections.abc import Callable
from typing import Final

import sqlalchemy as sa
from sqlalchemy.engine import Engine

from distributary.access.internal import SEED_BYTES
from distributary.core import database
from distributary.core.environment import CREDENTIAL_KEY_VARIABLE
from distributary.core.errors import SettingsError
from distributary.core.files import PRIVATE_MODE, write_atomically
from distributary.core.outcome.postgres import prepare_outcomes
from distributary.core.postgres_lease import CONTROL, prepare_leases, read_leases
from distributary.datadir import DataDir
from distributary.partitions.shared_page import ask_for_partitions, prepare_pages
from distributary.server.migrate import check_ended
from distributary.server.nodes import Authority, Leader, NodeFiles, make_authority, make_proof
from distributary.server.nodes.postgres import PostgresNodes, make_tables, shared_secret
from distributary.server.settings import Settings
from distributary.subscriptions.store import Keys, Sealer
from distributary.subscriptions.store.store import make_missing

LOOK_S: Final = 0.25
"""Interval of looks for the next leader."""


def join(settings: Settings, paths: DataDir, url: sa.URL) -> tuple[Engine, PostgresNodes]:
    """Make or check what the nodes share in the store, and write what this one proves itself by.

    Args:
        settings: Of the node.
        paths: Its data directory.
        url: Of the store.

    Returns:
        What reads leases, and the table of nodes.

    Raises:
        DistributaryError: The store cannot be used or is being filled by a migration, or the keys
            do not open its secrets.
    """
    sealer = Sealer(_keys(settings, paths))
    writer = database.open_writer(url, "delivery store")
    try:
        check_ended(writer)
        for prepare in (prepare_leases, prepare_outcomes, prepare_pages):
            prepare(writer)
    finally:
        writer.dispose()
    make_tables(url)
    leases = database.open_reader(url, "leases")
    authority = shared_secret(url, "authority", sealer, make_authority, Authority)
    NodeFiles(paths.run).write(make_proof(authority))
    new = functools.partial(secrets.token_bytes, SEED_BYTES)
    seed = shared_secret(url, "internal", sealer, new, bytes)
    write_atomically(paths.internal_key, seed, mode=PRIVATE_MODE)
    make_missing(url)  # which followers read
    return leases, PostgresNodes(url)


def check_keys(settings: Settings, paths: DataDir, url: sa.URL) -> None:
    """Check that this node has the key by which the cluster seals, and have it sealed by this one.

    For a node that is about to lead: another one may have got another key since ``join``.

    Raises:
        SettingsError: It does not.
        StoreError: The database failed.
    """

    def none() -> Authority:
        raise SettingsError("the store has lost the authority of the nodes; restart them")

    shared_secret(url, "authority", Sealer(_keys(settings, paths)), none, Authority)


def keep_keys(settings: Settings, paths: DataDir) -> None:
    """Have all processes that this one starts use the keys of now, from their environment.

    A key file that is replaced counts after a restart, for all of them: else the control part would
    seal by a key that consumers of partitions, which outlast it, did not get.

    Raises:
        StoreError: The key file cannot be read.
    """
    if CREDENTIAL_KEY_VARIABLE not in os.environ:
        os.environ[CREDENTIAL_KEY_VARIABLE] = _keys(settings, paths).text()


def _keys(settings: Settings, paths: DataDir) -> Keys:
    chosen = settings.credential_key_file
    path = paths.key_file(str(chosen.absolute()) if chosen else "")
    keys = Keys.of(path, os.environ)
    keys.check()
    return keys


def end_left_owners(
    url: sa.URL, wait_s: float = 0.0, sleep: Callable[[float], None] = time.sleep
) -> None:
    """Have owners without a driver end, in good order, where no node leads that would start one.

    Called by a leader that leaves and has ended its own: one before it may have left some to it.

    Args:
        url: Of the database.
        wait_s: How long the next leader is waited for.
        sleep: Waits some seconds.

    Raises:
        StoreError: The database cannot be asked now.
    """
    reader = database.open_reader(url, "leases")
    for left in range(round(wait_s / LOOK_S), -1, -1):
        if who_leads(reader)[1] > 0:
            return
        if left:
            sleep(LOOK_S)
    ask_for_partitions(url)


def who_leads(leases: Engine | None) -> tuple[Leader, float]:
    """Who leads, and how long its lease holds; 0 or less: nobody does. Asks the database.

    Raises:
        StoreError: It cannot be asked now.
    """
    assert leases is not None  # none before ``join``
    for row in read_leases(leases, CONTROL):
        if row.name == CONTROL and row.left_s > 0:
            return Leader.of_holder(row.holder, row.generation), row.left_s
    return Leader(), 0.0
