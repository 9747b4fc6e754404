"""Whatever call fails, however often: nothing acknowledged is lost, only log errors come out."""

import errno

import pytest

from distributary.core.errors import LogError, LogUnavailableError
from distributary.core.log import Reader, open_folder
from distributary.testing.small_log import LOG_DIR, SmallLog

ERRORS = {
    "EIO": errno.EIO,
    "ENOSPC": errno.ENOSPC,
    "EDQUOT": errno.EDQUOT,
    "EMFILE": errno.EMFILE,
    "EINTR": errno.EINTR,
    "short-write": 0,
}
BODIES = [b"%02d" % number * 300 for number in range(20)]


def work(log):
    """Open, append with rolls, and start again after each death; how many appends failed."""
    failed = 0
    log.tried.update(BODIES)
    for body in BODIES:
        try:
            if log.dead:
                log.disk.kill()
                log.open()
            log.append(body)
            log.appender.prepare()
        except LogError:
            failed += 1
    return failed


class FaultyLog(SmallLog):
    """A small log that knows whether it must be opened."""

    @property
    def dead(self):
        return self._appender is None or self._appender.dead is not None


def promised(log):
    """Offsets and bodies that were acknowledged."""
    return [(promise.offset, promise.body) for promise in log.promises]


def check_promises(log, disk):
    """The log holds on *disk* what it promised, at the offsets it promised."""
    reopened = log.reopened_on(disk)
    found = {record.offset: record.body for record in reopened.records()}
    assert [(offset, found.get(offset)) for offset, _ in promised(log)] == promised(log)
    assert set(found.values()) <= log.tried
    assert not reopened.appender.damages
    return reopened


@pytest.mark.slow
@pytest.mark.parametrize("times", [1, 3, 10**9], ids=["once", "three times", "for ever"])
@pytest.mark.parametrize("error", ERRORS.values(), ids=ERRORS)
def test_every_failing_call_is_survived(error, times):
    """The Nth call fails, for every N until none is left to fail."""
    call, reached = 0, True
    while reached:
        call += 1
        log = FaultyLog()
        log.disk.fail(call, error, times=times)
        failed = work(log)
        reached = log.disk.calls >= call
        assert failed < len(BODIES) or times > 1 or not reached
        log.disk.kill()
        log.disk.heal()
        check_promises(log, log.disk.power_cut())
        check_promises(log, log.disk).append(b"works again")
    assert call > 50
    assert failed == 0
    assert len(log.promises) == len(BODIES)


def test_a_failed_sync_ends_the_appender(log):
    """One EIO from fdatasync, then success: no acknowledgement follows, not even a wrong one."""
    log.append(b"kept")
    log.disk.fail(1, errno.EIO, only=lambda name: name == "fdatasync")
    with pytest.raises(LogUnavailableError, match="sync"):
        log.append(b"not promised")
    calls = log.disk.calls
    with pytest.raises(LogUnavailableError):
        log.append(b"refused")
    assert log.appender.dead is not None
    assert log.disk.calls == calls, "the file is never synced again"
    assert log.bodies() == [b"kept"]


def test_what_a_failed_sync_left_in_memory_is_written_again(log):
    """Records that read back after a failed sync count only once they are truly on the medium."""
    log.append(b"kept")
    log.disk.fail(1, errno.EIO, only=lambda name: name == "fdatasync")
    with pytest.raises(LogUnavailableError):
        log.append(b"in memory only")
    log.disk.kill()
    log.open()
    assert log.bodies() == [b"kept", b"in memory only"]
    survivor = log.reopened_on(log.disk.power_cut())
    assert survivor.bodies() == log.bodies()


def test_a_failed_write_ends_the_appender(log):
    """After EIO from a write nobody knows what the file holds: a new appender must look."""
    log.disk.fail(1, errno.EIO, only=lambda name: name == "pwrite")
    with pytest.raises(LogUnavailableError):
        log.append(b"x")
    assert log.appender.dead is not None


def test_a_full_disk_is_noticed_while_there_is_room(log):
    """The next segment is allocated ahead, so the error shows before an append fails."""
    log.append(b"x" * 3000)
    log.disk.fail(1, errno.ENOSPC, times=10**9, only=lambda name: name == "fallocate")
    log.appender.prepare()
    assert "free space" in str(log.appender.space_error)
    assert log.append(b"still fits") == 1


def test_a_full_disk_refuses_and_resumes_by_itself(log):
    """Without a next segment appends fail and reads go on; with space again both work."""
    log.append(b"x" * 3000)
    log.disk.fail(1, errno.ENOSPC, times=10**9, only=lambda name: name == "fallocate")
    for _ in range(3):
        with pytest.raises(LogUnavailableError, match="free space"):
            log.append(b"y" * 3000)
    assert log.appender.dead is None
    assert len(log.records()) == 1
    log.disk.heal()
    assert log.append(b"y" * 3000) == 1
    assert log.appender.space_error is None
    assert [len(body) for body in log.bodies()] == [3000, 3000]


def test_a_full_disk_is_not_asked_at_every_commit(log):
    """Allocating ahead waits a second after it failed."""
    log.append(b"x" * 3000)
    log.disk.fail(1, errno.ENOSPC, times=10**9, only=lambda name: name == "fallocate")
    log.appender.prepare()
    log.appender.prepare()
    assert log.disk.calls == 1
    log.clock.move_to(2.0)
    log.appender.prepare()
    assert log.disk.calls == 2


def test_no_space_in_the_middle_of_a_write_is_written_over(log):
    """A half-written commit is covered by the next one, and never comes back."""
    log.append(b"first")
    log.disk.fail(1, errno.ENOSPC, only=lambda name: name == "pwrite")
    with pytest.raises(LogUnavailableError):
        log.append(b"refused " * 10, b"refused too " * 20)
    assert log.appender.dead is None
    log.append(b"second")
    log.disk.kill()
    log.open()
    assert log.bodies() == [b"first", b"second"]


def test_opens_on_a_full_disk(log):
    """A full disk does not keep the log from opening: what is there can be read."""
    log.append(b"x" * 3000)
    log.disk.kill()
    log.disk.fail(1, errno.ENOSPC, times=10**9, only=lambda name: name == "fallocate")
    log.open()
    assert len(log.records()) == 1
    with pytest.raises(LogUnavailableError):
        log.append(b"y" * 3000)


def test_opens_a_new_log_on_a_full_disk():
    """The first segment is made as soon as there is space."""
    log = SmallLog()
    log.disk.fail(1, errno.ENOSPC, times=10**9, only=lambda name: name == "fallocate")
    log.open()
    with pytest.raises(LogUnavailableError):
        log.append(b"x")
    log.disk.heal()
    assert log.append(b"x") == 0


@pytest.mark.parametrize(
    ("error", "advice"),
    [(errno.EACCES, "read and write access"), (errno.EROFS, "remount"), (errno.EIO, "medium")],
    ids=["no permission", "read-only", "broken"],
)
@pytest.mark.parametrize("call", ["open", "listdir", "lock"])
def test_opening_names_the_folder_and_what_to_do(log, call, error, advice):
    """An error at opening names the path and the remedy."""
    log.disk.kill()
    log.disk.fail(1, error, times=10**9, only=lambda name: name == call)
    with pytest.raises(LogUnavailableError, match=advice) as caught:
        log.open()
    assert str(LOG_DIR) in str(caught.value)


def test_a_failed_opening_gives_the_lock_back(log):
    """Whoever could not open the log does not keep others from it."""
    log.disk.kill()
    log.disk.fail(1, errno.EIO, only=lambda name: name == "listdir")
    with pytest.raises(LogUnavailableError):
        log.open()
    log.disk.heal()
    log.open()


def test_reading_reports_what_the_disk_says(log):
    """Reads fail with a log error, and work once the disk does."""
    log.append(b"x")
    with log.reader() as reader:
        log.disk.fail(1, errno.EMFILE, times=10**9)
        with pytest.raises(LogUnavailableError, match="ulimit"):
            list(reader.read(0, 1))
        with pytest.raises(LogUnavailableError):
            reader.read_chunk(0, 100)
        with pytest.raises(LogUnavailableError):
            reader.start()
        with pytest.raises(LogUnavailableError):
            reader.offset_at(0)
        log.disk.heal()
        assert [record.body for record in reader.read(0, 1)] == [b"x"]


def test_an_unreadable_sector_costs_the_records_on_it(log):
    """A sector with EIO is damage to what lies on it, not the end of reading."""
    log.append(*(b"%d" % number * 200 for number in range(9)))
    bad = range(1000, 1001)

    class BadSector(type(log.disk)):
        def pread(self, handle, length, position):
            if position <= bad.start < position + length and position < 3000:
                raise OSError(errno.EIO, "bad sector")
            return super().pread(handle, length, position)

    log.disk.__class__ = BadSector
    with log.reader() as reader:
        found = [record.offset for record in reader.read(0, 9)]
        damages = reader.damages()
    assert found == []
    assert [(damage.from_offset, damage.to_offset) for damage in damages] == [(0, 9)]


def test_no_reader_before_the_first_appender():
    """A reader of a log that nobody ever opened says what to do."""
    log = SmallLog()
    open_folder(LOG_DIR, 1, disk=log.disk)
    with pytest.raises(LogUnavailableError, match="start the server"):
        Reader(LOG_DIR, 0, disk=log.disk)


def test_what_a_failed_write_left_is_covered_by_the_next():
    """Also where a shorter write fails after it: behind what is appended stand zeros again."""
    log = SmallLog()
    log.open()
    log.append(b"before")
    behind = log.disk.content(segment(log)).rfind(b"before") + len(b"before")
    for body in (b"x" * 1_000, b"y" * 10):
        log.disk.fail(1, errno.ENOSPC, only=lambda name: name == "pwrite")
        with pytest.raises(LogUnavailableError):
            log.append(body)
        assert any(log.disk.content(segment(log))[behind:]), "the first half was written"
    log.append(b"after")
    behind = log.disk.content(segment(log)).rfind(b"after") + len(b"after")
    assert not any(log.disk.content(segment(log))[behind:])
    check_promises(log, log.disk.power_cut())


def segment(log):
    """The file of the one segment that there is."""
    (path,) = (path for path in log.disk.names if path.suffix == ".seg")
    return path
