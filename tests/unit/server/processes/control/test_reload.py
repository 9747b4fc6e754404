"""Settings that are read again: what is taken, what waits, and how processes learn of it."""

import asyncio
import dataclasses
import io
import stat

import msgspec
import pytest
import structlog

from distributary.core.errors import StoreError
from distributary.datadir import LiveFile, LiveSettings
from distributary.server.processes.base.logging import configure, set_level
from distributary.server.processes.control.reload import (
    OF_NODES,
    OF_SINKS,
    OF_SOURCES,
    RELOADED,
    Reloads,
    change_of,
)
from distributary.server.settings import TABLES, Reload, Settings, settings_table


def test_what_processes_take_is_taken_and_the_rest_is_named():
    """The settings in force are the old ones with what was taken."""
    running = Settings()
    wanted = dataclasses.replace(running, log_level="debug", allow_sinks=("10.0.0.0/8",), port=1)
    change = change_of(running, wanted)
    assert set(change.applied) == {"log_level", "allow_sinks"}
    assert change.waiting == ("port",)
    assert change.settings == dataclasses.replace(wanted, port=running.port)


def test_nothing_changes_where_nothing_is_wanted():
    """Not even the number of the settings."""
    assert change_of(Settings(), Settings())[1:] == ((), (), ())


def test_a_setting_says_by_itself_whether_it_is_reloaded():
    """In its row of the reference page; tables have none, and are all reloaded."""
    rows = {row.name: row.reload for row in settings_table()}
    reloaded = {name for name, reload in rows.items() if reload is not Reload.NO}
    assert reloaded | {*TABLES} == RELOADED | OF_NODES
    assert (rows["port"], rows["log_level"]) == (Reload.NO, Reload.AT_ONCE)
    assert (rows["partitions"], rows["consent"]) == (Reload.NODES, Reload.SINKS)


def test_only_settings_that_are_there_are_taken():
    """A name that is misspelt would never be taken."""
    assert {field.name for field in dataclasses.fields(Settings)} >= RELOADED
    assert OF_SOURCES | OF_SINKS <= RELOADED


def test_a_secret_that_others_have_inherited_is_named():
    """It was in the environment when they started; a restart takes it from them."""
    one = {"name": "one", "secret_env": "ONE"}
    two = {"name": "two", "token_env": "TWO"}
    running = Settings(sources=(one,))
    change = change_of(running, dataclasses.replace(running, sources=(one, two)))
    assert change.told == {"applied": ("sources",), "after_a_restart": (), "inherited": ("TWO",)}
    assert "inherited" not in change_of(change.settings, running).told


def _live(number: int) -> LiveSettings:
    return LiveSettings(
        number=number,
        log_level="info",
        session=msgspec.Raw(b"{}"),
        ingest=msgspec.Raw(b"{}"),
    )


def test_a_process_sees_news_once(tmp_path):
    """And every process sees them, one that starts later too."""
    path = tmp_path / "settings.json"
    reader, writer = LiveFile(path), LiveFile(path)
    assert reader.look() is None
    for number in (1, 2):
        writer.write(_live(number))
        assert reader.look() == _live(number)
        assert reader.look() is None
    assert LiveFile(path).look() == _live(2)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_what_cannot_be_read_is_no_news(tmp_path):
    """Another version may have left it; the settings of the start count."""
    path = tmp_path / "settings.json"
    path.write_text('{"number": 1}')
    assert LiveFile(path).look() is None


def test_settings_that_cannot_be_written_are_a_fault_like_others(tmp_path):
    """A full disk: whoever reloads says so, and tries the same changes the next time."""
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="cannot write"):
        LiveFile(tmp_path / "file" / "settings.json").write(_live(1))


def test_reloads_wait_for_the_start_and_for_one_another():
    """What was asked during a reload is one more, since the file may have been read before."""
    assert asyncio.run(_reloads()) == [[], [0], [0, 1], [0, 1]]


async def _reloads() -> list[list[int]]:
    begun, ends = [], [asyncio.Event() for _ in range(3)]

    async def reload() -> None:
        begun.append(len(begun))
        await ends[begun[-1]].wait()

    async def seen() -> list[int]:
        for _ in range(5):
            await asyncio.sleep(0)
        return list(begun)

    reloads = Reloads(reload)
    reloads.ask()
    found = [await seen()]
    reloads.begin()
    found.append(await seen())
    reloads.ask()
    reloads.ask()
    ends[0].set()
    found.append(await seen())
    await reloads.stop()
    reloads.ask()
    return [*found, await seen()]


def test_the_level_of_a_logger_that_is_kept_changes(monkeypatch):
    """Loggers are made once and kept by those who log."""
    out = io.StringIO()
    monkeypatch.setattr("sys.stderr", out)
    before = structlog.get_config()
    try:
        configure("info", role="test")
        log = structlog.get_logger()
        log.debug("one")
        set_level("debug")
        log.debug("two")
        set_level("error")
        log.warning("three")
        log.error("four")
    finally:
        structlog.configure(**before)
        set_level("info")
    events = [msgspec.json.decode(line)["event"] for line in out.getvalue().splitlines()]
    assert events == ["two", "four"]
