"""Faults one after another under load, each once everything is whole again, with a verdict.

Callers: ``tests/cluster``, the soak run.
"""

import contextlib
import itertools
import os
import random
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from kit.cluster.cluster import Cluster
from kit.cluster.faults import Fault, stopped_owners
from kit.cluster.trial import RATE_PER_S, Seen, Trial, TrialReport

__all__ = ["Woken", "faulted", "run_faults", "slept", "under_load"]

AWAKE_S = 1.0
"""Who was woken has noticed by then that others own what it owned."""

WATCH_S = 3.0
"""How long a sink is watched for what a former owner sends: copies of what others have sent."""

SLEEP_S = 60.0
"""As long as a machine that is moved may stand."""

PAUSE_S = (0.2, 1.5)
"""Between two faults, drawn: they are to come at any moment of a flush or a renewal."""


class Woken(NamedTuple):
    """Owners that were stopped until others had their partitions, and woken.

    Attributes:
        stopped: How many.
        late: Events that came again more than ``AWAKE_S`` after they woke: id, when it came first,
            and when it came again.
    """

    stopped: int
    late: list[tuple[str, float, float]]


def slept(cluster: Cluster, trial: Trial, lasts_s: float) -> Woken:
    """Stop the owners of one worker until others deliver, and for *lasts_s* at least; wake them.

    Then see whether they send on.
    """
    with stopped_owners(cluster.busy_worker().member) as pids:
        began_s = time.monotonic()
        with trial.fault("owners stopped", touches_s=lasts_s):
            pass  # Deliveries go on while they are stopped.
        time.sleep(max(0.0, began_s + lasts_s - time.monotonic()))
    woken_s = time.monotonic()
    time.sleep(WATCH_S)
    cluster.wait_whole(apart=False)
    return Woken(len(pids), trial.copies_since(woken_s + AWAKE_S))


def faulted(
    cluster: Cluster, trial: Trial, fault: Fault, *, apart: bool = True, whole: bool = True
) -> Seen:
    """Let *fault* happen, wait until deliveries go on, and until the cluster is whole again.

    Args:
        cluster: All members.
        trial: Traffic.
        fault: What happens.
        apart: As ``Cluster.wait_whole`` has it.
        whole: False: nothing happens to the cluster after this, so it need not be whole again.
    """
    before = cluster.all_owners()
    with contextlib.ExitStack() as lasting:
        with trial.fault(fault.name, touches_s=fault.touches_s):
            lasting.enter_context(fault.doing(cluster))
            if fault.lasts_s is not None:
                time.sleep(fault.lasts_s)
                lasting.close()
        outlived = len(before & cluster.all_owners())
    if whole:
        cluster.wait_whole(apart=apart)
    trial.whole_again(outlived)
    return trial.seen[-1]


@contextlib.contextmanager
def under_load(
    folder: Path,
    *,
    rate_per_s: float = RATE_PER_S,
    say: Callable[[str], object] = lambda _text: None,
) -> Iterator[tuple[Cluster, Trial]]:
    """A cluster that delivers the events of a trial, whose ledgers are in *folder*.

    Raises:
        ServerError: It does not become ready.
        ServerNotHadError: Kafka, PostgreSQL or Java cannot be had on this machine.
    """
    # Where we are root, PostgreSQL runs as another account, which has to reach its own folder: none
    # of pytest's.
    with tempfile.TemporaryDirectory(prefix="distributary-cluster-") as members:
        Path(members).chmod(0o711 if os.getuid() == 0 else 0o700)
        with (
            Cluster(Path(members), say=say) as cluster,
            Trial(folder / "trial", cluster.urls, rate_per_s=rate_per_s) as trial,
        ):
            trial.begin(cluster.nodes[0].subscribe)
            cluster.wait_whole()
            yield cluster, trial


def run_faults(
    folder: Path,
    faults: Sequence[Fault],
    seed: int,
    *,
    sleeps: int = 0,
    say: Callable[[str], object] = lambda _text: None,
) -> tuple[TrialReport, list[Woken]]:
    """Start a cluster, let *faults* happen, and judge; ledgers are in *folder*.

    An interrupt (Ctrl-C) ends the run after the fault under way: what was seen is judged.

    Args:
        folder: Of this run alone.
        faults: What happens, in order.
        seed: Of the pauses between them.
        sleeps: How often the owners of a worker are stopped for ``SLEEP_S``, at the end.
        say: Told what has happened.

    Raises:
        ServerError: Something hung: it did not come back.
    """
    chance = random.Random(seed)  # noqa: S311 - a scenario is no secret
    with _interrupted() as ended, under_load(folder, say=say) as (cluster, trial):
        for fault in itertools.takewhile(lambda _fault: not ended.is_set(), faults):
            time.sleep(chance.uniform(*PAUSE_S))
            say(f"{fault.name}: {faulted(cluster, trial, fault)}")
        woken = [slept(cluster, trial, SLEEP_S) for _ in range(0 if ended.is_set() else sleeps)]
        return trial.conclude(), woken


@contextlib.contextmanager
def _interrupted() -> Iterator[threading.Event]:
    """Yields what an interrupt sets, once; the second one is as usual."""
    ended = threading.Event()

    def noted(_number: int, _frame: object) -> None:
        ended.set()
        signal.signal(signal.SIGINT, before)

    before = signal.signal(signal.SIGINT, noted)
    try:
        yield ended
    finally:
        signal.signal(signal.SIGINT, before)
