"""One partition that cannot be delivered, in a whole server: the other one does not notice."""

import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from distributary.cli._behaviour import Behaviour
from kit.running_server import RunningServer, ServerError, wait_until
from kit.traffic import Traffic

pytestmark = [pytest.mark.spark, pytest.mark.slow]

LONG_S = 90.0
"""Whatever takes longer never comes."""

KEYS = {zlib.crc32(key.encode()) % 2: key for key in ("a", "b", "c", "d")}
"""A partition key for each of the two partitions."""


@pytest.fixture(scope="module")
def traffic(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Traffic]:
    """One sink."""
    with Traffic(tmp_path_factory.mktemp("sinks"), {"sink": Behaviour()}) as running:
        yield running


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server whose partition 1 has a store that is none; never ready as a whole."""
    running = RunningServer(tmp_path_factory.mktemp("sick") / "data")
    damaged = running.paths.delivery_db(1)
    damaged.parent.mkdir(parents=True)
    damaged.write_bytes(b"this is no database" * 100)
    try:
        running.start()
        yield running
    finally:
        running.kill_all()


def publish(server: RunningServer, partition: int, name: str) -> int:
    """One event into *partition*."""
    headers = {
        "ce-specversion": "1.0",
        "ce-id": name,
        "ce-source": "/sick",
        "ce-type": "t",
        "ce-partitionkey": KEYS[partition],
    }
    return server.request("POST", "/events", b"{}", headers).status


def reasons(server: RunningServer) -> str:
    """What readiness says."""
    try:
        return server.request("GET", "/readyz").body.decode()
    except OSError:
        return ""


def damaged_store(path: Path) -> bool:
    """Whether the store at *path* is the one that is none."""
    return path.exists() and path.read_bytes().startswith(b"this is no")


def test_one_sick_partition_is_alone(server: RunningServer, traffic: Traffic) -> None:
    """The other one delivers; readiness says which is sick, and why; mended, it comes back."""
    taken = traffic.sinks["sink"].taken
    wait_until(lambda: "not a database" in reasons(server), LONG_S, "readiness says why")
    assert "partition 1" in reasons(server)
    server.subscribe(traffic.sinks["sink"].url)
    assert publish(server, 0, "well") == 202
    assert publish(server, 1, "sick") == 202
    try:
        wait_until(lambda: "well" in taken, LONG_S, "partition 0 is delivered")
    except ServerError as error:
        raise AssertionError(f"{error}\n{server.log_tail()}") from error
    assert "sick" not in taken
    wait_until(lambda: "partition 0" not in reasons(server), LONG_S, "partition 0 is ready")
    assert damaged_store(server.paths.delivery_db(1))
    server.paths.delivery_db(1).unlink()
    wait_until(lambda: "sick" in taken, LONG_S, "partition 1 is delivered")
    server.wait_ready()
    assert publish(server, 1, "again") == 202
    wait_until(lambda: "again" in taken, LONG_S, "partition 1 is delivered")
