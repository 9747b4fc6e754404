"""What the driver does beside its query where log and state are shared by machines.

It learns from Spark that an executor is gone. Owners that live on without it deliver until the next
tasks ask for their partitions. From those that are gone with it the partitions are taken in the
database: the next tasks own them in half the time that leases need to run out. An executor that
runs, and whose owners have fallen silent, is replaced: Spark would wait for its tasks for ever. One
that has come is made ready for tasks before it gets any, and where all lie on one worker, one of
them is moved.

It brings what owners tell from their machines to files of this one, where the other processes of
the leading node look for it, and the newest settings to owners.

All of this is in a thread: a database that is away stops no query.

Called by ``driver``.
"""

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from distributary.core import database
from distributary.core.errors import StoreError
from distributary.core.outcome import FailingRoute, write_failing
from distributary.core.outcome.postgres import PostgresFailing, usurp_partition
from distributary.core.postgres_lease import CONTROL, PARTITIONS, LeaseRow, read_leases
from distributary.datadir import (
    DataDir,
    LiveFile,
    LiveSettings,
    MappedStatusPage,
    Phase,
    StatusField,
    StatusPage,
    is_sick,
)
from distributary.partitions.cluster_places import prepare_places
from distributary.partitions.entrusted import Entrusted
from distributary.partitions.notes import LIVE, METER, SICK, Mirror, Notes
from distributary.partitions.shared_page import OwnStop, PageExchange
from distributary.spark._absence import Lease, Left, Silence, lease_in
from distributary.spark._desertion import Desertion
from distributary.spark._patience import Patience
from distributary.spark._replacing import Replacing
from distributary.spark._spread import Spread, worker_of
from distributary.spark._warming import Warming
from distributary.spark.cluster import warm_spare
from distributary.spark.master import answers, is_local, is_standalone

LOOK_S: Final = 0.5
"""Interval of looks at the executors: 2 ms of the JVM each."""
MISSED_LOOK_S: Final = 0.2
"""The same while the partitions of one that was lost wait to be taken."""
MIRRORED_EVERY_S: Final = 5.0
"""Interval of looks at the notes of owners."""
MISSED_S: Final = 15.0
"""How long the leases are looked at with each look after an executor was lost."""
SILENCE_LOOK_S: Final = 1.0
"""Interval of looks at the leases for owners that are silent."""
SAID_S: Final = 30.0
"""How long a look that fails as the one before is not told again: there are two a second."""
PATIENCE: Final = "deserted"
"""Name of the file of ``Patience``, beside Spark's checkpoint."""
FIELDS: Final = tuple(
    field
    for field in StatusField
    if field not in {StatusField.COMMITTING, StatusField.ACCESS, StatusField.AWAITS_RECORDS}
)
"""What the pages of partitions on this machine show."""


class SharedSide:
    """The driver's part; one for each driver process.

    Args:
        entrusted: What executors get, as JSON.
        paths: The data directory of this node.
        partitions: Of the log.
        log: Takes lines for people.
        holder: What the lease of those who lead says where this node has it; empty: it is alone.

    Attributes:
        status_pages: Of the partitions.
        deserted: Whether the application has to be ended, for another one to get executors.

    Raises:
        StoreError: The database cannot be used now.
    """

    def __init__(
        self, entrusted: bytes, paths: DataDir, partitions: int, log: Any, holder: str = ""
    ) -> None:
        self._paths = paths
        self._log = log
        given = msgspec.json.decode(entrusted, type=Entrusted)
        url = database.database_url(given.shared.store)
        self._reader = database.open_reader(url, "leases")
        self._writer = database.open_writer(url, "leases")
        prepare_places(url)
        self._exchange = PageExchange(url)
        self._leads = holder if holder and self.leader() == holder else ""
        if self._leads:
            self._exchange.lead(self._leads)
        self.status_pages: list[StatusPage] = [
            OwnStop(page, given.driver) for page in self._exchange.pages(range(partitions))
        ]
        self._shown = [MappedStatusPage(paths.status_page(p)) for p in range(partitions)]
        self._notes = Notes(url)
        self._mirror = Mirror(self._notes, self._path_of)
        self._failing = [PostgresFailing(url, number) for number in range(partitions)]
        self._failing_seen: dict[int, list[FailingRoute]] = {}
        self._live = LiveFile(paths.live)
        self._newest: LiveSettings | None = None
        self._said_s: dict[tuple[str, str], float] = {}
        self._mirrored_s = float("-inf")
        self._seen: set[str] = set()
        self._patience = Patience(paths.spark / PATIENCE)
        self._desertion, self.deserted = Desertion(self._patience.wait_s), False
        self._master = self._application = ""
        self._placed = False  # whether a master places executors: Spark lists none of its own
        self._missing_until_s = 0.0
        self._left, self._silence, self._spread = Left(), Silence(), Spread()
        self._workers: dict[str, str] = {}
        self._leases_read_s = float("-inf")
        self._owning: set[str] = set()
        self._warming, self._replacing = Warming(), Replacing()
        self._round: threading.Thread | None = None
        self._make_warm: Callable[[], frozenset[str]] = frozenset
        self._ask: Callable[[], tuple[str, set[str]]] | None = None
        self._replace: Callable[[str], bool] = lambda _executor: False
        self._ask_workers: Callable[[], dict[str, str]] = dict
        threading.Thread(target=self._run, name="shared-side", daemon=True).start()

    def begin(self, spark: SparkSession) -> None:
        """A session has started: watch its executors."""
        context = spark.sparkContext
        scala = context._jsc.sc()  # noqa: SLF001 - PySpark does not tell of executors

        def ask() -> tuple[str, set[str]]:
            ids = str(scala.getExecutorIds().mkString(","))
            return str(context.applicationId), set(filter(None, ids.split(",")))

        def ask_workers() -> dict[str, str]:
            found = scala.statusStore().executorList(True)
            return {
                str(each.id()): worker_of(each)
                for each in (found.apply(index) for index in range(found.size()))
            }

        self._master = str(context.master)
        self._placed = not is_local(self._master)
        # A query that begins anew has the same executors; Spark counts those of each application
        # from zero.
        if context.applicationId != self._application:
            self._application = context.applicationId
            self._patience = Patience(self._paths.spark / PATIENCE)
            self._desertion, self.deserted = Desertion(self._patience.wait_s), False
            self._warming, self._replacing = Warming(), Replacing()
        self._ask, self._ask_workers = ask, ask_workers
        self._replace = lambda executor: bool(scala.killAndReplaceExecutor(executor))
        self._make_warm = lambda: warm_spare(spark, len(self.status_pages), self._log)

    @property
    def wait_s(self) -> float:
        """How long the application waits for executors, seconds."""
        return self._patience.wait_s

    def missed(self) -> None:
        """The query got too few task slots in that time."""
        if not self._seen:
            self._patience.spend()

    def held(self) -> set[int] | None:
        """Partitions whose owners, of this application, have not drained. Asks the database.

        The pages do not tell: the next leader's driver, and its owners, write there too.

        Returns:
            None: No master places executors, so leases name no application.
        """
        if not self._placed:
            return None
        try:
            rows = read_leases(self._reader, PARTITIONS)
        except StoreError:
            return set(range(len(self.status_pages)))
        found = (lease_in(row, self._application) for row in rows if row.left_s > 0)
        held = {lease.partition for lease in found if lease is not None}
        loading = Phase.LOADING
        return {each for each in held if self.status_pages[each][StatusField.PHASE] != loading}

    @property
    def outlived(self) -> bool:
        """Whether owners of this application deliver on without it, and without its executors."""
        return is_standalone(self._master)

    def leader(self) -> str:
        """What the lease of those who lead says of its holder; empty: nobody leads now.

        Raises:
            StoreError: The database cannot be asked now.
        """
        rows = read_leases(self._reader, CONTROL)
        return next((row.holder for row in rows if row.name == CONTROL and row.left_s > 0), "")

    def show(self) -> None:
        """Copy the status pages to those of this machine, where its other processes look."""
        for shared, shown in zip(self.status_pages, self._shown, strict=True):
            for field in FIELDS:
                shown[field] = shared[field]

    def _run(self) -> None:
        while True:
            time.sleep(MISSED_LOOK_S if time.monotonic() < self._missing_until_s else LOOK_S)
            try:
                self.look()
            except (StoreError, OSError, Py4JError) as error:
                self._say("shared-side-late", error)
            # Whatever it is: without this thread no owner is fenced, and no executor replaced.
            except Exception as error:  # noqa: BLE001 - see above
                self._say("shared-side-failed", error)

    def _say(self, event: str, error: Exception) -> None:
        """Say that a look failed, unless the same was said lately."""
        kind, now_s = type(error).__name__, time.monotonic()
        if now_s - self._said_s.get((event, kind), float("-inf")) >= SAID_S:
            self._said_s[event, kind] = now_s
            self._log.warning(event, kind=kind, error=(str(error) or repr(error))[:500])

    def look(self) -> None:
        """Look at executors, settings and notes once.

        Raises:
            StoreError, OSError, Py4JError: Not everything was looked at; the next look is.
        """
        self._look_at_executors()
        self._newest = self._live.look() or self._newest
        if self._newest is not None:
            content = msgspec.json.encode(self._newest)
            self._notes.put(LIVE, content, durable=True, leads=self._leads)
            self._newest = None  # not before: the file is told of once
        if time.monotonic() - self._mirrored_s >= MIRRORED_EVERY_S:
            self._mirrored_s = time.monotonic()
            self._mirror.look()
            self._bring_failing()

    def _bring_failing(self) -> None:
        """Write the failing routes of each partition where this machine's processes read them."""
        for number, owner in enumerate(self._failing):
            routes = owner.read()
            if self._failing_seen.get(number) != routes:
                write_failing(self._paths.failing(number), routes)
                self._failing_seen[number] = routes

    def _look_at_executors(self) -> None:
        if self._ask is None:
            return
        application, alive = self._ask()
        now_s = time.monotonic()
        if alive:
            self._patience.renew()
        if self._desertion.look(alive, now_s) and self._placed:
            self._desert(application, "it has no executors")
            self._patience.spend()
        self._ask_to_replace(alive, now_s)
        self._warm_up(alive, now_s)
        if self._seen - alive:
            self._missing_until_s = now_s + MISSED_S
        self._seen = alive
        missing = now_s < self._missing_until_s
        if not missing and now_s - self._leases_read_s < SILENCE_LOOK_S:
            return
        self._leases_read_s = now_s
        rows = read_leases(self._reader, PARTITIONS)
        # Asked once more: an executor may have come, and taken a lease, while they were read.
        _, alive = self._ask()
        left, ended = self._left.look(rows, application, alive, self._asked, now_s)
        for partition, _, executor in left:
            self._log.warning("executor-gone", partition=partition, executor=executor)
            # Tasks that look for a partition ask for this one from now on.
            self.status_pages[partition][StatusField.EPOCH] = 0
            self.status_pages[partition][StatusField.PHASE] = Phase.ABSENT
        self._take(ended, "owner-gone")
        silent = self._silence.look(rows, application, alive, now_s)
        self._take_from_silent(silent, now_s)
        self._ask_to_replace(alive, now_s)
        self._desert_where_one_stays(application, rows, now_s)
        leases = (lease_in(row, application) for row in rows if row.left_s > 0)
        owners = [lease.executor for lease in leases if lease is not None]
        self._owning = set(owners)
        if not (missing or self._in_round) and self._ready:
            self._keep_apart(owners, alive, now_s)

    def _take_from_silent(self, leases: list[Lease], now_s: float) -> None:
        """Take partitions from owners that have fallen silent; their executors are replaced.

        Not all that one does may hang; yet what hangs is not told to Spark by anybody else.
        """
        # Before that: once a lease is taken, nothing shows that its owner was silent.
        wanted = self._replacing.want((lease.executor for lease in leases), now_s)
        self._replacing.spare(wanted - self._take(leases, "executor-silent"))

    def _ask_to_replace(self, alive: set[str], now_s: float) -> None:
        """Have Spark replace executors."""
        for executor in self._replacing.due(alive, now_s):
            try:
                replaced, error = self._replace(executor), ""
            except Py4JError as fault:
                replaced, error = False, str(fault)[:500]
            if replaced:
                self._replacing.told(executor)
            else:
                self._log.warning("executor-not-replaced", executor=executor, error=error)

    def _desert_where_one_stays(
        self, application: str, rows: Sequence[LeaseRow], now_s: float
    ) -> None:
        """Desert the application where an executor was not replaced, and partitions stand still.

        Where all have owners, its tasks do no harm: it is left alone from then on. While the master
        is away the healthy executors would end, and no other ones come.
        """
        overdue = self._replacing.overdue(now_s)
        owned = sum(row.left_s > 0 and bool(row.holder) for row in rows)
        if owned == len(self.status_pages):
            self._replacing.spare(overdue)
        elif overdue and answers(self._master):
            self._desert(application, f"executors were not replaced: {', '.join(overdue)}")

    def _desert(self, application: str, reason: str) -> None:
        """Have the driver end this application, where a master places executors."""
        if self._placed and not self.deserted:
            self.deserted = True
            self._log.error("application-deserted", application=application, reason=reason)

    def _keep_apart(self, owners: list[str], alive: set[str], now_s: float) -> None:
        """Have an executor moved where all of them lie on one worker."""
        if not alive <= self._workers.keys():
            self._workers = self._ask_workers()
        workers = {each: self._workers.get(each, "") for each in alive}
        moved = self._spread.look(workers, owners, now_s)
        if moved is not None:
            self._log.warning("executors-on-one-worker", worker=workers[moved], executor=moved)
            self._replace(moved)

    @property
    def _ready(self) -> bool:
        """Whether all partitions have been delivered."""
        return all(page[StatusField.READY] for page in self.status_pages)

    def _warm_up(self, alive: set[str], now_s: float) -> None:
        """Have executors that have come start their Python, once all partitions are delivered.

        Those of a lost executor first get another owner: the start of Python takes it seconds of
        the same processors.
        """
        owned = (page[StatusField.EPOCH] or is_sick(page) for page in self.status_pages)
        if self._in_round or not self._ready or not all(owned):
            return
        if self._warming.due(alive, self._owning, now_s):
            self._round = threading.Thread(target=self._run_round, name="warming", daemon=True)
            self._round.start()

    @property
    def _in_round(self) -> bool:
        """Whether executors are being made warm."""
        return self._round is not None and self._round.is_alive()

    def _run_round(self) -> None:
        self._warming.told(self._make_warm())

    def _asked(self, partition: int) -> bool:
        return bool(self.status_pages[partition][StatusField.SUCCESSOR])

    def _take(self, leases: list[Lease], event: str) -> set[str]:
        """Take partitions from their owners; returns the executors from which some were taken."""
        executors = set()
        for partition, generation, executor in leases:
            if usurp_partition(self._writer, partition, generation):
                executors.add(executor)
                self.status_pages[partition][StatusField.PHASE] = Phase.ABSENT
                self._log.warning(event, partition=partition, executor=executor)
        return executors

    def _path_of(self, name: str) -> Path | None:
        if name.startswith(METER):
            role = name.removeprefix(METER)
            return self._paths.meter(role) if role.replace("-", "").isalnum() else None
        number = name.removeprefix(SICK)
        return self._paths.sick(int(number)) if name != number and number.isdecimal() else None
