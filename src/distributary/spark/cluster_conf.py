"""Spark's settings for a cluster: executors on other machines, which come and go.

Called by ``session``. Pure; imports no pyspark. What an operator sets wins, except for what keeps
secrets: an executor gets passwords of log and store with its task, so a cluster without
authentication and encryption is refused.
"""

from collections.abc import Mapping
from typing import Final

from distributary.core.errors import SettingsError
from distributary.spark import class_archive
from distributary.spark.master import is_local

SHARED_KEY: Final = "spark.authenticate.secret"
"""Spark's property for the secret that driver and executors share."""
PACKAGE: Final = "distributary.zip"
"""Name of the package in the folder of an executor."""
ON_EXECUTOR: Final = "DISTRIBUTARY_ON_EXECUTOR"
"""Environment variable that tells a daemon of workers that it is on an executor of a cluster."""
PYTHON: Final = "spark.pyspark.python"
SOCKETS: Final = "spark.python.unix.domain.socket.dir"

PROTECTION: Final = {
    "spark.authenticate": "true",
    "spark.network.crypto.enabled": "true",
    # Blocks that do not fit in memory, tasks among them.
    "spark.io.encryption.enabled": "true",
}
"""What every executor of a cluster is reached with."""

_JVM: Final = (
    "-XX:+UseSerialGC -Xss512k -XX:ReservedCodeCacheSize=64m -XX:MaxMetaspaceSize=192m"
    " -XX:TieredStopAtLevel=1 -XX:-UsePerfData -Djava.net.preferIPv4Stack=true"
)
"""Of an executor: it starts workers, and no event passes through it."""


def has_own_secret(master: str) -> bool:
    """Whether Spark makes a secret for each application on *master*, and brings it to executors."""
    return is_local(master) or master.startswith(("yarn", "k8s"))


def cluster_conf(host: str, archive: str = "") -> dict[str, str]:
    """Returns Spark's settings for executors that need nothing of the server's disk.

    Args:
        host: Name or address of this node, at which executors reach the driver.
        archive: Archive of classes of this node (``class_archive``). Executors start with half the
            CPU where they have the same one at the same path, and without it elsewhere.
    """
    return {
        **PROTECTION,
        "spark.driver.host": host,
        "spark.driver.bindAddress": host,
        # An executor that falls silent is given up after this long, not after two minutes: its
        # tasks start elsewhere. Its partitions do not wait for that: their leases run out.
        "spark.executor.heartbeatInterval": "2s",
        "spark.storage.blockManagerHeartbeatTimeoutMs": "10s",
        "spark.network.timeoutInterval": "2s",
        # Tasks are spread over the executors that are there when the query starts, and a task stays
        # where it is: so it waits for all of them, and a moment at most for one that is lost.
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        "spark.scheduler.maxRegisteredResourcesWaitingTime": "3s",
        # Why an executor was lost does not matter. Who tells it may be lost as well: its worker,
        # or the master.
        "spark.standalone.executorRemoveDelayOnDisconnection": "100ms",
        # Executors may be lost for as long as the server runs.
        "spark.executor.maxNumFailures": "1000000",
        "spark.dynamicAllocation.enabled": "false",
        # All places are alike: nothing of a partition is on the disk of an executor.
        "spark.locality.wait": "0s",
        "spark.executor.memory": "512m",
        "spark.executor.extraJavaOptions": _JVM + class_archive.options(archive),
        "spark.executorEnv.PYTHONPATH": PACKAGE,
        f"spark.executorEnv.{ON_EXECUTOR}": "1",
        # The folder of the executor, which Spark makes for each application and removes.
        SOCKETS: ".",
        PYTHON: "python3",
    }


def check_protection(master: str, conf: Mapping[str, str]) -> None:
    """Refuse a cluster over which secrets would travel in clear, or to anybody.

    Args:
        master: Spark master.
        conf: All of Spark's settings.

    Raises:
        SettingsError: A line for each setting.
    """
    faults = [
        f"spark_conf: {name} must be {value}: executors get the passwords of log and store"
        for name, value in PROTECTION.items()
        if conf.get(name) != value
    ]
    if not conf.get(SHARED_KEY) and not has_own_secret(master):
        faults.append(
            f"spark_conf: {SHARED_KEY} is needed for {master}: the secret that its master and its"
            " workers have"
        )
    if faults:
        raise SettingsError("\n".join(("The Spark cluster is not protected:", *faults)))


def python_on_executors(conf: Mapping[str, str]) -> str:
    """Returns the Python that executors run: a name, or a path on their machines."""
    return conf.get(PYTHON) or "python3"


def package_wanted(conf: Mapping[str, str]) -> bool:
    """Whether executors get the package from here: not where an archive or image has it."""
    return PACKAGE in conf.get("spark.executorEnv.PYTHONPATH", "").split(":")
