"""One server for all tests that ask for nothing special of it."""

import contextlib
import sqlite3
import urllib.parse
from collections.abc import Iterator

import pytest

from kit import proton_client
from kit.browser import Browser, installed
from kit.ports import free_port
from kit.running_server import RunningServer, wait_until
from kit.servers.fixtures import not_run

SETTLE_S_MAX = 60.0
"""Longest wait until nothing is under way for subscriptions that are gone."""


@pytest.fixture(scope="session")
def amqp_port() -> int | None:
    """Where the shared server takes requests over AMQP; None: Qpid Proton is not installed."""
    return free_port() if proton_client.installed() else None


@pytest.fixture(scope="session")
def shared_server(
    tmp_path_factory: pytest.TempPathFactory, amqp_port: int | None
) -> Iterator[RunningServer]:
    """A server with the settings it is shipped with; starting one is the dearest part of a test.

    It listens for AMQP too. Who uses it has sources, sinks or a namespace of its own, counts from
    what it found, and leaves a server that runs.
    """
    flags = ["--amqp-port", str(amqp_port)] if amqp_port else []
    with RunningServer(tmp_path_factory.mktemp("shared") / "data", flags=flags) as server:
        yield server


@pytest.fixture(scope="module")
def plain_server(shared_server: RunningServer) -> Iterator[RunningServer]:
    """The same for one module, whose subscriptions are gone at its end."""
    yield shared_server
    with contextlib.closing(sqlite3.connect(shared_server.paths.state_db)) as store:
        found = store.execute("SELECT DISTINCT namespace FROM api_subscription").fetchall()
    for (namespace,) in found:
        path = f"/namespaces/{namespace}/subscriptions"
        for subscription in shared_server.request("GET", f"{path}?limit=1000").json():
            name = urllib.parse.quote(subscription["id"], safe="")
            shared_server.request("DELETE", f"{path}/{name}")
    wait_until(shared_server.settled, SETTLE_S_MAX, "what was under way ends")


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """One browser for all tests of pages; not run where there is none."""
    if not installed():
        not_run("chromium", "there is no chromium on this machine")
    made = Browser(tmp_path_factory.mktemp("browser"))
    yield made
    made.close()
