"""A standalone Spark cluster: a master, and workers that start executors; PySpark's own classes.

Both prove to each other, to drivers and to executors that they know one secret, as a cluster that
``distributary`` uses must (``docs/how-to/run-on-a-spark-cluster.md``).
"""

import contextlib
import os
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Final

import psutil
import pyspark

from distributary.spark import find_java
from kit.ports import free_port
from kit.servers._base import BrokerServer, ServerNotHadError, _listens

SECRET: Final = "canary-of-the-cluster-7c1f"  # noqa: S105 - of servers that live for a test
"""What the processes of the cluster share: looked for where it must not stand."""
HOME = Path(pyspark.__file__).parent
JVM = (
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Xmx192m",
    "-Xss512k",
    "-Djava.net.preferIPv4Stack=true",
)


class _SparkDaemon(BrokerServer):
    """One of Spark's daemons, on a port of the loopback."""

    properties: ClassVar = {
        "spark.authenticate": "true",
        "spark.authenticate.secret": SECRET,
        "spark.network.crypto.enabled": "true",
        "spark.deploy.maxExecutorRetries": "-1",
        "spark.worker.cleanup.enabled": "true",
        "spark.ui.prometheus.enabled": "false",
    }

    def environ(self) -> dict[str, str]:
        return {
            "SPARK_HOME": str(HOME),
            "SPARK_LOCAL_IP": "127.0.0.1",
            # Spark's launcher guesses it by files that PySpark lacks.
            "SPARK_SCALA_VERSION": "2.13",
            # An executor gets the environment of its worker: nothing of this tree is to help it.
            "PYTHONPATH": "",
        }

    def command(self) -> list[str]:
        try:
            java = find_java(os.environ)
        except Exception as error:
            raise ServerNotHadError(str(error)) from error
        self.web_port = free_port()
        conf = self.folder / "spark.properties"
        conf.write_text("".join(f"{name} {value}\n" for name, value in self.properties.items()))
        conf.chmod(0o600)
        program = str(Path(java.path) / "bin" / "java")
        return [
            program,
            *JVM,
            "-cp",
            f"{HOME}/jars/*",
            *self.arguments(),
            "--properties-file",
            str(conf),
        ]

    def arguments(self) -> list[str]:
        """Its class, and what that is given."""
        raise NotImplementedError

    def ready(self) -> bool:
        return _listens(self.web_port)


class SparkMaster(_SparkDaemon):
    """The master."""

    name = "spark-master"

    @property
    def url(self) -> str:
        """What ``--spark-master`` takes."""
        return f"spark://127.0.0.1:{self.port}"

    def arguments(self) -> list[str]:
        """See above."""
        place = [
            "--host",
            "127.0.0.1",
            "--port",
            str(self.port),
            "--webui-port",
            str(self.web_port),
        ]
        return ["org.apache.spark.deploy.master.Master", *place]


MARK: Final = "TESTS_SPARK_WORKER"
"""Environment variable of all that a worker starts: its folder."""


class SparkWorker(_SparkDaemon):
    """A worker: starts executors with so many *cores*, which are task slots."""

    name = "spark-worker"

    def __init__(self, master: str, cores: int) -> None:
        super().__init__()
        self._master = master
        self._cores = cores

    def environ(self) -> dict[str, str]:
        """See above."""
        return super().environ() | {MARK: str(self.folder)}

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """As above; end the owners too, which outlive their executors."""
        self.kill()
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.environ().get(MARK) == str(self.folder):
                    process.kill()
        super().__exit__(kind, error, trace)

    def arguments(self) -> list[str]:
        """See above."""
        place = [
            "--host",
            "127.0.0.1",
            "--port",
            str(self.port),
            "--webui-port",
            str(self.web_port),
        ]
        size = [
            "--cores",
            str(self._cores),
            "--memory",
            "2g",
            "--work-dir",
            str(self.folder / "work"),
        ]
        return ["org.apache.spark.deploy.worker.Worker", *place, *size, self._master]
