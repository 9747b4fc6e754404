"""Spark's checkpoint damaged between two runs, in the ways that a crash of the machine leaves it.

What is found in each of them is shown on copies of a checkpoint that Spark has written; that a
server starts with it, by two starts: one whose checkpoint is begun anew, and one after damage that
Spark copes with by itself. ``make soak`` starts a server after each.
"""

import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from distributary.cli._behaviour import Behaviour
from distributary.core.event import Event
from distributary.spark import checkpoint as checkpoints
from kit.running_server import RunningServer, wait_until
from kit.traffic import Traffic

pytestmark = [pytest.mark.crash, pytest.mark.spark, pytest.mark.slow]

EVENTS = 50
ARRIVE_S_MAX = 60.0


def _last(checkpoint: Path, name: str) -> Path:
    """The newest entry of a log of the checkpoint."""
    entries = [path for path in (checkpoint / name).iterdir() if path.name.isdigit()]
    return max(entries, key=lambda path: int(path.name))


def _empty_offsets(checkpoint: Path) -> None:
    _last(checkpoint, "offsets").write_bytes(b"")


def _empty_offsets_without_crc(checkpoint: Path) -> None:
    path = _last(checkpoint, "offsets")
    path.write_bytes(b"")
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)


def _empty_commits(checkpoint: Path) -> None:
    _last(checkpoint, "commits").write_bytes(b"")


def _garbage_crc(checkpoint: Path) -> None:
    path = _last(checkpoint, "offsets")
    path.with_name(f".{path.name}.crc").write_bytes(b"\xffgarbage")


def _no_metadata(checkpoint: Path) -> None:
    (checkpoint / "metadata").unlink()


def _empty_metadata(checkpoint: Path) -> None:
    (checkpoint / "metadata").write_bytes(b"")


def _no_commits(checkpoint: Path) -> None:
    _last(checkpoint, "commits").unlink()


def _nothing(_checkpoint: Path) -> None:
    pass


def _what_spark_mends(checkpoint: Path) -> None:
    _garbage_crc(checkpoint)
    _no_commits(checkpoint)


DAMAGES: tuple[tuple[str, Callable[[Path], None], str | None], ...] = (
    ("none", _nothing, None),
    ("offsets of length zero", _empty_offsets, "offsets/.* is not whole"),
    ("offsets of length zero without crc", _empty_offsets_without_crc, "offsets/.* is not whole"),
    ("commits of length zero", _empty_commits, "commits/.* is not whole"),
    ("garbage in a crc", _garbage_crc, None),
    ("metadata missing", _no_metadata, "metadata is missing"),
    ("metadata of length zero", _empty_metadata, "metadata cannot be read"),
    ("last commit missing", _no_commits, None),
    ("all that spark mends", _what_spark_mends, None),
)
"""(what, how, why the checkpoint has to be begun anew; None: it need not be)."""

STARTS_OF_THE_GATE = {"offsets of length zero without crc", "all that spark mends"}


def _event(number: int) -> Event:
    attributes: dict[str, str | int | bool] = {
        "specversion": "1.0",
        "id": str(number),
        "source": "/checkpoint",
        "type": "t",
    }
    return Event(attributes, b"%d" % number)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RunningServer, Traffic]]:
    """A server with one subscription, stopped in good order after its first events."""
    folder = tmp_path_factory.mktemp("checkpoint")
    server = RunningServer(folder / "data", flags=["--epoch-s", "1s"])
    with Traffic(folder, {"sink": Behaviour()}) as traffic:
        try:
            server.start()
            server.wait_ready()
            server.subscribe(traffic.sinks["sink"].url)
            _deliver(server, traffic)
            assert server.stop() == 0
            yield server, traffic
        finally:
            server.kill_all()


def _deliver(server: RunningServer, traffic: Traffic) -> None:
    traffic.publish_now(server.url, _event, EVENTS)
    sink = traffic.sinks["sink"]
    wait_until(lambda: len(sink.taken) == traffic.begun, ARRIVE_S_MAX, "all events arrive")
    commits = server.paths.spark / "checkpoint" / "commits"
    wait_until(lambda: any(commits.glob("[0-9]*")), ARRIVE_S_MAX, "an epoch has ended")


@pytest.mark.parametrize(
    ("damage", "reason"),
    [pytest.param(damage, reason, id=name.replace(" ", "-")) for name, damage, reason in DAMAGES],
)
def test_damage_that_spark_cannot_mend_is_found(
    runs: tuple[RunningServer, Traffic],
    tmp_path: Path,
    damage: Callable[[Path], None],
    reason: str | None,
) -> None:
    """In a copy of what Spark wrote; such a checkpoint is moved away whole, any other stays."""
    server, _ = runs
    copy = tmp_path / "checkpoint"
    shutil.copytree(server.paths.spark / "checkpoint", copy)
    damage(copy)
    damaged = {path.relative_to(copy) for path in copy.rglob("*")}

    found = checkpoints.prepare(copy, 2)

    if reason is None:
        assert found is None
        kept = copy
    else:
        assert found is not None
        assert re.match(reason, found), found
        assert not any(copy.iterdir())
        kept = tmp_path / "checkpoint.damaged.1"
    assert {path.relative_to(kept) for path in kept.rglob("*")} == damaged


@pytest.mark.parametrize(
    ("damage", "begun_anew"),
    [
        pytest.param(
            damage,
            reason is not None,
            id=name.replace(" ", "-"),
            marks=() if name in STARTS_OF_THE_GATE else pytest.mark.soak,
        )
        for name, damage, reason in DAMAGES
    ],
)
def test_starts_by_itself_and_loses_nothing(
    runs: tuple[RunningServer, Traffic], damage: Callable[[Path], None], begun_anew: bool
) -> None:
    """The server starts; what it had delivered stays delivered, what comes now arrives once."""
    server, traffic = runs
    checkpoint = server.paths.spark / "checkpoint"
    damage(checkpoint)
    shutil.rmtree(server.paths.spark / "checkpoint.damaged.1", ignore_errors=True)
    said_before = server.log.read_text().count("spark-checkpoint-rebuilt")

    server.start()
    server.wait_ready()
    _deliver(server, traffic)
    assert server.stop() == 0

    assert traffic.sinks["sink"].copies == []
    rebuilt = server.log.read_text().count("spark-checkpoint-rebuilt") - said_before
    assert rebuilt == int(begun_anew), server.log_tail()
    assert (server.paths.spark / "checkpoint.damaged.1").exists() == begun_anew
