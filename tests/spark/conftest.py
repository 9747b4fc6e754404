"""One Spark session for all tests of this folder, and logs to read."""

import asyncio
import itertools
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from distributary.core.cluster import KafkaPlace, PostgresPlace
from distributary.core.event import Event, record
from distributary.core.flow import (
    RecordKind,
    TimerEvent,
    encode_addressed,
    encode_carried,
    encode_timer_event,
)
from distributary.core.log import Appender, open_folder
from distributary.core.log.kafka import topic_of
from distributary.core.log.kafka._producer import KafkaProducer
from distributary.core.log.kafka._value import encode
from distributary.spark import find_java, java_environment, register
from kit import short_jvm
from kit.servers._base import PASSWORD, USER
from kit.servers.fixtures import authority, kafka, postgres, postgres_place

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["authority", "kafka", "postgres", "postgres_place"]

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
    logging = f"-Dlog4j2.configurationFile={folder / 'log4j2.properties'}"
    options = " ".join([*short_jvm.options(), logging])
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
            .config("spark.driver.extraJavaOptions", options)
            # The same files by a URL that is not this machine's.
            .config("spark.hadoop.fs.viewfs.mounttable.all.linkFallback", "file:///")
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


class FilledLog:
    """A log of two partitions, which tests fill. ``options`` name it to the format."""

    options: dict[str, str]

    def __init__(self) -> None:
        self.clock = Clock()

    def append_body(self, partition: int, kind: RecordKind, body: bytes) -> int:
        """One record as it is."""
        raise NotImplementedError

    def append(self, partition: int, *events: Event) -> int:
        """One record with *events*."""
        return self.append_body(partition, RecordKind.EVENTS, record.encode(events))

    def append_addressed(
        self, partition: int, address: str, *events: Event, ttl: int, carried: bytes = b""
    ) -> int:
        """One record with *events* that were published to a Broker or Channel."""
        if carried:
            body = encode_carried(address, (ttl,) * len(events), record.encode(events), carried)
            return self.append_body(partition, RecordKind.CARRIED, body)
        body = encode_addressed(address, (ttl,) * len(events), record.encode(events))
        return self.append_body(partition, RecordKind.ADDRESSED, body)

    def append_control(self, partition: int, body: bytes) -> int:
        """One record that is no event."""
        return self.append_body(partition, RecordKind.ROUTE, body)

    def append_timer_event(self, partition: int, event: Event) -> int:
        """An event that a timer made."""
        body = encode_timer_event(TimerEvent("route", 1, 1, event))
        return self.append_body(partition, RecordKind.TIMER_EVENT, body)


class LogOnDisk(FilledLog):
    """The log of a data directory, and an appender for each partition."""

    def __init__(self, data_dir: Path) -> None:
        super().__init__()
        self.data_dir = data_dir
        self.options = {"path": str(data_dir)}
        self.log_dir = data_dir / "log"
        open_folder(self.log_dir, 2)
        self._appenders = [
            Appender.open(self.log_dir, number, clock=self.clock, segment_bytes=64 * 1024)
            for number in range(2)
        ]

    def append_body(self, partition: int, kind: RecordKind, body: bytes) -> int:
        """See ``FilledLog``."""
        return self._appenders[partition].append([(kind, body)])

    def append_damaged(self, partition: int, event: Event) -> None:
        """One record, of whose body a bit is flipped afterwards."""
        body = record.encode([event])
        self.append_body(partition, RecordKind.EVENTS, body)
        (segment,) = (self.log_dir / f"p{partition:04}").glob("*.seg")
        content = bytearray(segment.read_bytes())
        content[content.rindex(body)] ^= 1
        segment.write_bytes(content)

    def delete_oldest(self, partition: int) -> int:
        """Delete the oldest segment, as retention does; returns the offset that remains."""
        first, second, *_ = sorted((self.log_dir / f"p{partition:04}").glob("*.seg"))
        first.unlink()
        return int(second.stem)

    def close(self) -> None:
        """Give up the locks."""
        for appender in self._appenders:
            appender.close()


class LogOnKafka(FilledLog):
    """The log that nodes share: a topic whose records have the time of the clock."""

    _numbers = itertools.count()

    def __init__(self, kafka: Any, password_file: Path) -> None:
        super().__init__()
        servers, prefix = f"127.0.0.1:{kafka.port}", f"spark-{os.getpid()}-{next(self._numbers)}"
        self.place = KafkaPlace(
            servers=(servers,), prefix=prefix, sasl_mechanism="PLAIN", user=USER, password=PASSWORD
        )
        # Kept although the clock is years behind, as the topic of a server is.
        config = {"message_timestamp_type": "CreateTime", "retention_ms": "-1"}
        kafka.create_topic(topic_of(self.place), 2, **config)
        password_file.write_text(f"{PASSWORD}\n")
        password_file.chmod(0o600)
        self.options = {
            "log": f"kafka://{servers}/{prefix}",
            "logSasl": "PLAIN",
            "logUser": USER,
            "logPasswordFrom": f"file:{password_file}",
        }
        self._client = kafka.client()
        self._loop = asyncio.new_event_loop()
        self._producer = KafkaProducer(self.place, self._loop)

    def append_body(self, partition: int, kind: RecordKind, body: bytes) -> int:
        """See ``FilledLog``."""
        return self._append(partition, kind, body, "")

    def _append(self, partition: int, kind: RecordKind, body: bytes, by: str) -> int:
        now_ms = self.clock.now_ms

        async def appended() -> Any:
            done = self._loop.create_future()
            self._producer.submit(partition, kind, body, done.set_result, by=by, time_ms=now_ms)
            return await done

        offset = self._loop.run_until_complete(appended())
        assert isinstance(offset, int), offset
        return offset

    def append_published(self, partition: int, by: str, *events: Event) -> int:
        """One record with *events* that somebody known has published."""
        return self._append(partition, RecordKind.EVENTS, record.encode(events), by)

    def append_damaged(self, partition: int, event: Event) -> None:
        """One record of whose body a bit is flipped on its way."""
        from confluent_kafka import Producer  # noqa: PLC0415 - as the product loads it

        value = bytearray(encode(RecordKind.EVENTS, record.encode([event])))
        value[-1] ^= 1
        producer = Producer(self._client)
        topic = topic_of(self.place)
        producer.produce(topic, bytes(value), partition=partition, timestamp=self.clock.now_ms)
        assert producer.flush(30) == 0

    def delete_oldest(self, partition: int) -> int:
        """Delete seven records, as retention does; returns the offset that remains."""
        from confluent_kafka import TopicPartition  # noqa: PLC0415 - as the product loads it
        from confluent_kafka.admin import AdminClient  # noqa: PLC0415

        below = TopicPartition(topic_of(self.place), partition, 7)
        admin = AdminClient(self._client)  # ends its requests when it is forgotten
        (deleted,) = admin.delete_records([below]).values()
        return int(deleted.result(30).low_watermark)

    def close(self) -> None:
        """End the connections."""
        self._loop.run_until_complete(self._producer.close())
        self._loop.close()


@pytest.fixture
def log(tmp_path: Path) -> Iterator[LogOnDisk]:
    """An empty log."""
    made = LogOnDisk(tmp_path / "data")
    yield made
    made.close()


@pytest.fixture
def topic_log(kafka: Any, tmp_path: Path) -> Iterator[LogOnKafka]:
    """An empty log of several nodes."""
    made = LogOnKafka(kafka, tmp_path / "log.password")
    yield made
    made.close()


@pytest.fixture(params=["log", "topic_log"], ids=["folder", "topic"])
def any_log(request: pytest.FixtureRequest) -> FilledLog:
    """An empty log, of one server and of several nodes."""
    made: FilledLog = request.getfixturevalue(request.param)
    return made


@pytest.fixture
def node_settings() -> Callable[[LogOnKafka, PostgresPlace, Path], str]:
    """Writes the settings file of a node into a folder, with more than the tables need."""

    def write(log: LogOnKafka, place: PostgresPlace, folder: Path) -> str:
        (folder / "store.password").write_text(f"{place.password}\n")
        (folder / "store.password").chmod(0o600)
        lines = {
            "node_name": "node-1",
            "node_address": "localhost:1",
            "data_dir": str(folder / "data"),
            "log": log.options["log"],
            "log_sasl": log.options["logSasl"],
            "log_user": log.options["logUser"],
            "log_password_file": log.options["logPasswordFrom"].removeprefix("file:"),
            "store": place.url,
            "store_password_file": str(folder / "store.password"),
            "history": str(folder / "history"),
        }
        path = folder / "distributary.toml"
        path.write_text("".join(f'{name} = "{value}"\n' for name, value in lines.items()))
        return str(path)

    return write


@pytest.fixture
def event() -> Callable[..., Event]:
    """Make an event with this id; more attributes by name."""

    def make(id_: str, data: bytes | None = None, **attributes: str | int | bool) -> Event:
        required = {"specversion": "1.0", "id": id_, "source": "/s", "type": "t"}
        return Event({**required, **attributes}, data)

    return make
