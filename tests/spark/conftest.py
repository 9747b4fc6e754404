"""One Spark session for all tests of this folder, and logs to read."""

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from distributary.core.event import Event, record
from distributary.core.flow import (
    RecordKind,
    TimerEvent,
    encode_addressed,
    encode_carried,
    encode_timer_event,
)
from distributary.core.log import Appender, open_folder
from distributary.spark import find_java, java_environment, register

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SOURCE = Path(__file__).parents[2] / "src"

LOG4J = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %p %c{1}: %m%n
"""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Every test here starts Spark, and none is quick."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.spark)
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator["SparkSession"]:
    """A local session: two slots, no UI, loopback only, quiet; workers import the source tree."""
    folder = tmp_path_factory.mktemp("spark")
    (folder / "log4j2.properties").write_text(LOG4J)
    environment = java_environment(find_java(os.environ), folder / "java")
    environment["PYTHONPATH"] = os.pathsep.join(
        filter(None, [str(SOURCE), os.environ.get("PYTHONPATH")])
    )
    options = f"-Dlog4j2.configurationFile={folder / 'log4j2.properties'}"
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        from pyspark.sql import SparkSession  # noqa: PLC0415 - after Java is chosen

        from distributary.spark.session import FILE_MANAGER  # noqa: PLC0415 - imports pyspark

        session = (
            SparkSession.builder.master("local[2]")
            .appName("distributary tests")
            .config("spark.ui.enabled", "false")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.driver.extraJavaOptions", f"-XX:+UseSerialGC {options}")
            .config("spark.python.unix.domain.socket.enabled", "true")
            .config("spark.sql.streaming.checkpointFileManagerClass", FILE_MANAGER)
            .config("spark.sql.shuffle.partitions", "2")
            .config("spark.sql.session.timeZone", "UTC")
            .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
            .getOrCreate()
        )
        register(session)
        yield session
        session.stop()


class Clock:
    """A wall clock that tests set."""

    def __init__(self) -> None:
        self.now_ms = 1_700_000_000_000

    def monotonic_s(self) -> float:
        return self.now_ms / 1000

    def wall_ms(self) -> int:
        return self.now_ms


class LogOnDisk:
    """A data directory with a log of two partitions, and an appender for each."""

    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir
        self.log_dir = data_dir / "log"
        self.clock = Clock()
        open_folder(self.log_dir, 2)
        self._appenders = [
            Appender.open(self.log_dir, number, clock=self.clock, segment_bytes=64 * 1024)
            for number in range(2)
        ]

    def append(self, partition: int, *events: Event) -> int:
        """One record with *events*."""
        return self._appenders[partition].append([(RecordKind.EVENTS, record.encode(events))])

    def append_body(self, partition: int, kind: RecordKind, body: bytes) -> int:
        """One record as it is."""
        return self._appenders[partition].append([(kind, body)])

    def append_addressed(
        self, partition: int, address: str, *events: Event, ttl: int, carried: bytes = b""
    ) -> int:
        """One record with *events* that were published to a Broker or Channel."""
        if carried:
            body = encode_carried(address, (ttl,) * len(events), record.encode(events), carried)
            return self._appenders[partition].append([(RecordKind.CARRIED, body)])
        body = encode_addressed(address, (ttl,) * len(events), record.encode(events))
        return self._appenders[partition].append([(RecordKind.ADDRESSED, body)])

    def append_control(self, partition: int, body: bytes) -> int:
        """One record that is no event."""
        return self._appenders[partition].append([(RecordKind.ROUTE, body)])

    def append_timer_event(self, partition: int, event: Event) -> int:
        """An event that a timer made."""
        body = encode_timer_event(TimerEvent("route", 1, 1, event))
        return self._appenders[partition].append([(RecordKind.TIMER_EVENT, body)])

    def close(self) -> None:
        """Give up the locks."""
        for appender in self._appenders:
            appender.close()


@pytest.fixture
def log(tmp_path: Path) -> Iterator[LogOnDisk]:
    """An empty log."""
    made = LogOnDisk(tmp_path / "data")
    yield made
    made.close()


@pytest.fixture
def event() -> Callable[..., Event]:
    """Make an event with this id; more attributes by name."""

    def make(id_: str, data: bytes | None = None, **attributes: str | int | bool) -> Event:
        required = {"specversion": "1.0", "id": id_, "source": "/s", "type": "t"}
        return Event({**required, **attributes}, data)

    return make
