"""Settings of a session, as ``serve`` makes them and Spark's workers get them."""

import msgspec

from distributary.core.log.taken import OnceLimits
from distributary.core.outcome import AGE_MAX_S, BYTES_MAX, ROUTE_BYTES_MAX, Budgets
from distributary.core.quotas import QuotaTable
from distributary.datadir import DataDir
from distributary.net.otlp import OtlpSettings
from distributary.partitions.entrusted import Entrusted
from distributary.partitions.places import FilePlaces, Places
from distributary.partitions.ports import BackfillBudget
from distributary.resource import Reach


class SessionSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a session; sent to the Spark workers as JSON.

    Attributes:
        data_dir: The data directory.
        reach: Where events may be sent.
        log_attempts: Which attempts the history has: ``all``, ``failures`` or ``none``.
        history: Folder that the owner writes history files into; empty: it writes none.
        history_mark: What marks this folder, where owners may run on machines that have another
            one of its name; empty: all run on one machine.
        log_level: Least level of lines that the owner writes to standard error.
        drain_s: Time for attempts under way at an orderly stop, seconds.
        credential_key_file: Key file of credentials; empty: in the data directory. Never the keys
            themselves: a worker reads its environment or this file.
        issuer_url: Issuer of the tokens of deliveries.
        issuer_key_file: File of the private keys that sign them; empty: none are shown.
        partitions: Number of partitions: each owner has an equal share of the budgets.
        lag_bytes_max: Log that backfills may keep, over all partitions, bytes; 0: unlimited.
        lag_age_max_s: The same by age, seconds; 0: unlimited.
        dead_letter_bytes_max: Kept dead letters over all partitions, bytes.
        dead_letter_route_bytes_max: The same of one route.
        dead_letter_age_max_s: The same by age, seconds.
        quotas: What each namespace may keep, over all partitions.
        otlp: What is sent to a collector.
        archive: Where the log is archived: what it has no more is recalled from there. Empty:
            nowhere.
        once: Bounds of the window in which an event is taken once.
        entrusted: Of an owner on another machine than the server; the driver adds it to a task, and
            nobody writes it to a file. None: all is in the data directory.
    """

    data_dir: str
    reach: Reach = msgspec.field(default_factory=Reach)
    log_attempts: str = "all"
    history: str = ""
    history_mark: str = ""
    log_level: str = "info"
    drain_s: float = 10.0
    credential_key_file: str = ""
    issuer_url: str = ""
    issuer_key_file: str = ""
    partitions: int = 1
    lag_bytes_max: int = 0
    lag_age_max_s: float = 0.0
    dead_letter_bytes_max: int = BYTES_MAX
    dead_letter_route_bytes_max: int = ROUTE_BYTES_MAX
    dead_letter_age_max_s: float = AGE_MAX_S
    quotas: QuotaTable = msgspec.field(default_factory=QuotaTable)
    otlp: OtlpSettings = OtlpSettings()
    archive: str = ""
    once: OnceLimits = OnceLimits()
    entrusted: Entrusted | None = None

    def places(self) -> Places:
        """Returns where the partitions lie."""
        if self.entrusted is not None:
            from distributary.partitions.cluster_places import (  # noqa: PLC0415 - its clients
                cluster_places,
            )

            return cluster_places(self.entrusted)
        return FilePlaces(DataDir.of(self.data_dir), self.credential_key_file)

    def of_executor(self, entrusted: Entrusted | None) -> "SessionSettings":
        """Returns these settings for an owner that gets *entrusted*; None: those of a server."""
        if entrusted is None:
            return self
        return msgspec.structs.replace(
            self, entrusted=entrusted, issuer_key_file=entrusted.issuer_key_path
        )

    @property
    def once_of_readers(self) -> OnceLimits | None:
        """The window where readers find repeats; None: there is none, or who appends finds them."""
        return self.once if self.once.age_max_s and self.entrusted is not None else None

    def backfill_budget(self) -> BackfillBudget:
        """Returns the backfill budget of one partition."""
        bytes_max = self.lag_bytes_max // self.partitions
        return BackfillBudget(bytes_max, self.lag_age_max_s, self.quotas, self.partitions)

    def budgets(self) -> Budgets:
        """Returns the dead letter budgets of one partition."""
        whole = Budgets(
            self.dead_letter_route_bytes_max,
            self.dead_letter_bytes_max,
            self.dead_letter_age_max_s,
            self.quotas,
        )
        return whole.share(self.partitions)
