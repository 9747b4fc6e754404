"""What the driver's side of a cluster does at its looks, with Spark and database in memory."""

from types import SimpleNamespace

import msgspec
import pytest
from py4j.protocol import Py4JError

from distributary.core.errors import StoreError
from distributary.core.postgres_lease import CONTROL, LeaseRow, partition_lease
from distributary.datadir import (
    DataDir,
    LiveFile,
    LiveSettings,
    MappedStatusPage,
    Phase,
    StatusField,
)
from distributary.partitions.executor import LeaseHolder
from distributary.partitions.notes import LIVE
from distributary.spark import shared_side
from distributary.spark._absence import SILENT_S
from distributary.spark._patience import WAIT_S, WAIT_S_MAX
from distributary.spark._replacing import AGAIN_S, OVERDUE_S
from distributary.spark.shared_side import LOOK_S, SAID_S, SharedSide
from distributary.testing.virtual import VirtualClock

APPLICATION = "app-1"
DRIVER = 5
FAULTS = {
    "a store that is away": (StoreError("it does not answer"), "shared-side-late"),
    "a bug": (AssertionError("what nobody thought of"), "shared-side-failed"),
}
"""Of a look, with the line that says so."""
OPENS = ("database_url", "open_reader", "open_writer")
"""What it asks of the database by name."""


class Thread:
    """One that never runs: the test looks."""

    def __init__(self, **_more):
        pass

    def start(self):
        """As a thread."""

    def is_alive(self):
        """As a thread."""
        return False


class Spark:
    """Spark's context, as far as it tells of executors.

    Attributes:
        alive: The executors.
        answers: Of the next calls that replace one: whether it is, or an error; then True.
        asked: Which were to be replaced, and when.
    """

    applicationId = APPLICATION  # noqa: N815 - Spark's name

    def __init__(self, now_s):
        self.alive = {"0", "1"}
        self.answers = []
        self.asked = []
        self.master = "spark://m:7077"
        self._now_s = now_s
        self.sparkContext = self
        self._jsc = self

    def sc(self):
        """Spark's context in the JVM."""
        return self

    def getExecutorIds(self):  # noqa: N802 - Spark's name
        """As Spark's."""
        return SimpleNamespace(mkString=lambda _by: ",".join(sorted(self.alive)))

    def statusStore(self):  # noqa: N802 - Spark's name
        """It knows nothing of where executors lie."""
        nothing = SimpleNamespace(length=lambda: 0, size=lambda: 0)
        return SimpleNamespace(executorList=lambda _active: nothing)

    def killAndReplaceExecutor(self, executor):  # noqa: N802 - Spark's name
        """As Spark's."""
        self.asked.append((executor, self._now_s()))
        answer = self.answers.pop(0) if self.answers else True
        if isinstance(answer, Exception):
            raise answer
        return answer


class World:
    """A driver's side; two executors own a partition each."""

    def __init__(self, folder, monkeypatch):
        clock = self.clock = VirtualClock()
        self.rows, self.taken, self.told, self.notes = [], [], [], {}
        self.led = []
        self.away = set()
        paths = self.paths = DataDir(folder)
        paths.run.mkdir(parents=True)
        paths.spark.mkdir()
        own = self.rows_of_pages = [
            MappedStatusPage(folder / f"page-{number}") for number in range(2)
        ]
        entrusted = SimpleNamespace(shared=SimpleNamespace(store=None), driver=DRIVER)
        decode, encode = (lambda *_, **__: entrusted), msgspec.json.encode
        nothing = SimpleNamespace(look=lambda: None)
        time = SimpleNamespace(monotonic=clock.monotonic_s, sleep=self.pass_s)
        for name, fake in {
            "time": time,
            "msgspec": SimpleNamespace(json=SimpleNamespace(decode=decode, encode=encode)),
            "database": SimpleNamespace(**dict.fromkeys(OPENS, lambda *_: None)),
            "threading": SimpleNamespace(Thread=Thread),
            "prepare_places": lambda _url: None,
            "PageExchange": lambda _url: SimpleNamespace(
                pages=lambda some: [own[n] for n in some], lead=self.led.append
            ),
            "Notes": lambda _url: SimpleNamespace(put=self._put),
            "Mirror": lambda *_: nothing,
            "PostgresFailing": lambda *_: SimpleNamespace(read=list),
            "read_leases": lambda *_: self._asked("read", self.rows),
            "usurp_partition": self._usurp,
            "answers": lambda _master: "master" not in self.away,
        }.items():
            monkeypatch.setattr(shared_side, name, fake)
        log = self._log = SimpleNamespace(**dict.fromkeys(("info", "warning", "error"), self._tell))
        self.side = SharedSide(b"{}", paths, 2, log)
        self.spark = Spark(clock.monotonic_s)
        self.side.begin(self.spark)

    def begin_anew(self, holder=""):
        """Another driver, with an application of its own, whose executors are still to come."""
        self.side = SharedSide(b"{}", self.paths, 2, self._log, holder)
        self.spark.alive = set()
        self.side.begin(self.spark)

    def deserted_after_s(self):
        """Look until the application is deserted, or so long; returns the time."""
        began_s = self.clock.monotonic_s()
        while not self.side.deserted and self.clock.monotonic_s() < began_s + 2 * WAIT_S_MAX:
            self.look(LOOK_S)
        return self.clock.monotonic_s() - began_s

    def _tell(self, event, **fields):
        self.told.append((event, fields))

    def _asked(self, what, answer):
        if what in self.away:
            raise StoreError("the database does not answer")
        return answer

    def _put(self, name, content, *, durable, leads):
        assert leads == ""  # it is alone
        self._asked("put", None)
        assert durable  # nobody notes it again
        self.notes[name] = content

    def _usurp(self, _writer, partition, generation):
        self._asked("usurp", None)
        name = partition_lease(partition)
        self.rows = [row for row in self.rows if row.name != name]
        self.taken.append((partition, generation))
        return True

    def own(self, partition, executor, left_s=4.0):
        """An owner on *executor* has the lease of *partition*."""
        holder = LeaseHolder(host="m", pid=1, application=APPLICATION, executor=executor)
        self.rows.append(LeaseRow(partition_lease(partition), 7, holder.encode(), left_s))

    def pass_s(self, seconds):
        """Let time pass."""
        self.clock.move_to(self.clock.monotonic_s() + seconds)

    def look(self, seconds):
        """Let time pass, and the driver look as it does; what goes wrong is tried again."""
        until_s = self.clock.monotonic_s() + seconds
        while self.clock.monotonic_s() < until_s:
            self.pass_s(LOOK_S)
            try:
                self.side.look()
            except StoreError:
                continue

    def events(self, name):
        """What was told by that name."""
        return [fields for event, fields in self.told if event == name]


@pytest.fixture
def world(tmp_path, monkeypatch):
    """Executors 0 and 1 own partitions 0 and 1; the owner on 0 has fallen silent."""
    made = World(tmp_path, monkeypatch)
    made.own(0, "0", left_s=-1.0)
    made.own(1, "1")
    return made


def test_a_silent_executor_is_replaced(world):
    """Its partition is taken from it first; the other one is left alone."""
    world.look(SILENT_S + 3.0)
    assert world.taken == [(0, 7)]
    assert [executor for executor, _ in world.spark.asked] == ["0"]
    world.spark.alive = {"1", "2"}
    world.look(2 * OVERDUE_S)
    assert len(world.spark.asked) == 1
    assert not world.side.deserted


@pytest.mark.parametrize("answer", [False, Py4JError("no answer")], ids=["refused", "failed"])
def test_an_executor_that_could_not_be_replaced_is_tried_again(world, answer):
    """Nothing else shows that it was silent: its lease is empty by then."""
    world.spark.answers = [answer]
    world.look(SILENT_S + 3.0)
    assert len(world.events("executor-not-replaced")) == 1
    world.look(AGAIN_S)
    (_, first_s), (_, second_s) = world.spark.asked
    assert second_s - first_s >= AGAIN_S
    assert not world.side.deserted


def test_an_executor_that_is_not_replaced_costs_the_application(world):
    """Spark asks its master once for each: another application has others."""
    world.spark.answers = [False] * 100
    world.look(SILENT_S + OVERDUE_S - 1.0)
    assert not world.side.deserted
    world.look(5.0)
    assert world.side.deserted
    assert [fields["application"] for fields in world.events("application-deserted")] == ["app-1"]


def test_no_application_is_given_up_while_no_other_can_be_had(world):
    """Its healthy executors would end, and the master is away."""
    world.spark.answers, world.away = [False] * 100, {"master"}
    world.look(SILENT_S + 2 * OVERDUE_S)
    assert not world.side.deserted
    world.away = set()
    world.look(5.0)
    assert world.side.deserted


def test_no_application_is_given_up_while_all_partitions_have_owners(world):
    """Another executor has what was taken: what hangs does no harm."""
    world.spark.answers = [False] * 100
    world.look(SILENT_S + 3.0)
    world.own(0, "1")
    world.look(2 * OVERDUE_S)
    assert not world.side.deserted
    world.rows = world.rows[:1]  # a hand-over, long after that
    world.look(5.0)
    assert not world.side.deserted


def test_a_query_that_begins_anew_has_the_same_executors(world):
    """One that was not replaced is not forgotten."""
    world.spark.answers = [False] * 100
    world.look(SILENT_S + 3.0)
    world.side.begin(world.spark)
    world.look(OVERDUE_S + 5.0)
    assert world.side.deserted


def test_a_database_that_fails_in_between_leaves_no_silent_executor(world):
    """Whether its partition was taken is not known."""
    world.look(SILENT_S)
    world.away = {"usurp"}
    world.look(3.0)
    assert [executor for executor, _ in world.spark.asked] == ["0"]


def test_an_executor_whose_partition_another_one_has_is_left_alone(world, monkeypatch):
    """It was late, and not silent."""
    monkeypatch.setattr(shared_side, "usurp_partition", lambda *_: False)
    world.look(SILENT_S + 5.0)
    assert world.spark.asked == []


class EndedError(BaseException):
    """The test has seen enough."""


@pytest.mark.parametrize("fault", FAULTS)
def test_nothing_ends_the_looks(world, monkeypatch, fault):
    """Without them no owner is fenced any more; what goes wrong is told now and then."""
    error, event = FAULTS[fault]
    looks = []

    def look():
        looks.append(world.clock.monotonic_s())
        if looks[-1] > 2 * SAID_S:
            raise EndedError
        raise error

    monkeypatch.setattr(world.side, "look", look)
    with pytest.raises(EndedError):
        world.side._run()
    assert len(looks) >= 2 * SAID_S / LOOK_S
    assert world.events(event) == [{"kind": type(error).__name__, "error": str(error)}] * 2


def test_an_application_that_gets_no_executors_waits_longer_each_time(world):
    """They may need longer to come than it waits; each driver is a process of its own."""
    waits = []
    for _ in range(6):
        world.begin_anew()
        waits.append(world.deserted_after_s())
    for factor, waited_s in zip((1, 2, 4, 8, 16, 16), waits, strict=True):
        assert 0 < waited_s - factor * WAIT_S < 3.0
    assert 16 * WAIT_S == WAIT_S_MAX


def test_executors_that_have_come_end_the_long_waits(world):
    """Whatever is lost next is asked for anew after the shortest one."""
    world.begin_anew()
    world.deserted_after_s()
    world.begin_anew()
    world.look(WAIT_S + 5.0)
    assert not world.side.deserted
    world.spark.alive = {"0"}
    world.look(1.0)
    world.begin_anew()
    assert world.deserted_after_s() < WAIT_S + 3.0


def test_executors_are_made_warm_after_partitions_are_delivered_again(world, monkeypatch):
    """The start of their Python would hold up the owners that take over."""
    begun = []
    recording = type("Recording", (Thread,), {"start": lambda _self: begun.append("warming")})
    monkeypatch.setattr(shared_side, "threading", SimpleNamespace(Thread=recording))
    pages = world.side.status_pages
    for page in pages:
        page[StatusField.READY] = page[StatusField.EPOCH] = 1
    world.look(1.0)
    assert begun == ["warming"]
    pages[0][StatusField.EPOCH] = 0  # its executor is gone
    world.spark.alive = {"1", "2"}
    world.look(5.0)
    assert begun == ["warming"]
    pages[0][StatusField.EPOCH] = 2
    world.look(1.0)
    assert begun == ["warming"] * 2


def test_a_query_that_got_no_slots_waits_longer_next_time(world):
    """The start gives up by itself, when its application is not deserted yet."""
    world.begin_anew()
    world.look(1.0)
    world.side.missed()
    world.begin_anew()
    assert world.side.wait_s == 2 * WAIT_S
    world.spark.alive = {"0"}
    world.look(1.0)
    world.side.missed()  # too few slots for the partitions: more time brings no more
    world.begin_anew()
    assert world.side.wait_s == WAIT_S


def test_settings_that_could_not_be_noted_are_noted_later(world):
    """Owners would go on with the former ones until somebody changed them again."""
    live = LiveSettings(
        number=7, log_level="info", session=msgspec.Raw(b"{}"), ingest=msgspec.Raw(b"{}")
    )
    LiveFile(world.paths.live).write(live)
    world.away = {"put"}
    world.look(3.0)
    assert world.notes == {}
    world.away = set()
    world.look(1.0)
    assert msgspec.json.decode(world.notes[LIVE])["number"] == 7


def test_what_a_driver_writes_counts_while_its_node_leads(world):
    """Also where it leads once more."""
    holder = '["node-2","b:1"]'
    world.begin_anew(holder)
    assert world.led == []
    world.rows.append(LeaseRow(CONTROL, 3, holder, 4.0))
    world.begin_anew('["node-1","a:1"]')
    assert world.led == []
    world.begin_anew(holder)
    assert world.led == [holder]


def test_a_driver_stops_its_own_owners(world):
    """The rows have its number, by which those of the next driver go on."""
    for page in world.side.status_pages:
        page[StatusField.STOP] = 1
    assert [page[StatusField.STOP] for page in world.rows_of_pages] == [DRIVER, DRIVER]


def test_only_spark_s_own_master_leaves_owners_without_executors(world):
    """Others end a container with all that runs in it."""
    found = []
    for master in ("spark://m:7077", "yarn", "k8s://https://m:6443", "local[2]"):
        world.spark.master = master
        world.side.begin(world.spark)
        found.append(world.side.outlived)
    assert found == [True, False, False, False]


def test_the_lease_says_who_leads(world):
    """As its holder wrote it; nobody does where it has run out."""
    assert world.side.leader() == ""
    world.rows.append(LeaseRow(CONTROL, 3, '["node-2","b:1"]', 4.0))
    assert world.side.leader() == '["node-2","b:1"]'
    world.rows[-1] = world.rows[-1]._replace(left_s=-0.1)
    assert world.side.leader() == ""
    world.away = {"read"}
    with pytest.raises(StoreError):
        world.side.leader()


def test_partitions_are_held_until_their_leases_end(world):
    """Whatever the next leader writes on the pages; its owners are of another application."""
    world.rows.clear()
    world.own(0, "0")
    world.own(1, "1")
    for page in world.side.status_pages:
        page[StatusField.PHASE] = Phase.ABSENT
    assert world.side.held() == {0, 1}
    world.rows.clear()
    world.own(1, "1")
    world.side.status_pages[0][StatusField.PHASE] = Phase.RUNNING
    assert world.side.held() == {1}
    world.side.status_pages[1][StatusField.PHASE] = Phase.LOADING
    assert world.side.held() == set()
    world.away = {"read"}
    assert world.side.held() == {0, 1}
