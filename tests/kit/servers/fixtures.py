"""Fixtures of pytest: real brokers, each started once in a run, when the first test asks for it.

Loaded by a ``conftest.py``::

    from kit.servers.fixtures import *

A broker that cannot be had on this machine skips the tests that want it, and says so (``NOT RUN``);
where the variable ``TESTS_REQUIRE`` names it, they fail.
"""

import importlib
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

import pytest

from distributary.core.cluster import PostgresPlace
from kit.servers._base import BrokerServer, ServerNotHadError
from kit.servers._tls import Authority

if TYPE_CHECKING:
    from kit.servers.kafka_cluster import KafkaCluster
    from kit.servers.postgres import Postgres

__all__ = [
    "artemis",
    "authority",
    "kafka",
    "kafka_cluster",
    "mosquitto",
    "nats_server",
    "not_run",
    "postgres",
    "postgres_place",
    "rabbitmq",
    "start",
]

REQUIRE: Final = "TESTS_REQUIRE"
"""Environment variable: names of what must be had, with commas between them: ``mosquitto``,
``nats``, ``rabbitmq``, ``artemis``, ``kafka``, ``postgres``, ``amqp`` for AMQP's client library,
and ``chromium``, a browser."""


class _Kind(NamedTuple):
    """Where a server's class is.

    Attributes:
        module: Under ``kit.servers``; also its name in ``REQUIRE``.
        class_name: There.
        instead: What shows something without it; said where it cannot be had.
    """

    module: str
    class_name: str
    instead: str = ""


KINDS: Final = {
    kind.module: kind
    for kind in (
        _Kind("mosquitto", "Mosquitto"),
        _Kind("rabbitmq", "RabbitMq"),
        _Kind("artemis", "Artemis"),
        _Kind("nats", "NatsServer"),
        _Kind("postgres", "Postgres"),
        _Kind(
            "kafka",
            "Kafka",
            "deliveries and a source ran at librdkafka's mock cluster instead"
            " (tests/brokers/kafka/test_mock_cluster.py)",
        ),
    )
}


def required(name: str) -> bool:
    """Whether a test that *name* is missing for must fail."""
    return name in os.environ.get(REQUIRE, "").replace(" ", "").split(",")


def not_run(name: str, reason: str) -> None:
    """End the test that wants *name*: skipped, or failed where it is required.

    Raises:
        BaseException: Always: pytest's ``Skipped`` or ``Failed``.
    """
    if required(name):
        pytest.fail(f"{name} is required ({REQUIRE}), but: {reason}", pytrace=False)
    pytest.skip(f"NOT RUN: {name}: {reason}")


def start(name: str, authority: Authority) -> BrokerServer:
    """A started server of that kind; the caller kills it, best as a context manager.

    Args:
        name: Of ``KINDS``.
        authority: Signs its certificate.

    Raises:
        BaseException: It cannot be had: see ``not_run``.
    """
    kind = KINDS[name]
    module = importlib.import_module(f"kit.servers.{kind.module}")
    server: BrokerServer | None = None
    try:
        server = getattr(module, kind.class_name)(authority)
        return server.__enter__()
    except ServerNotHadError as error:
        not_run(name, "; ".join(filter(None, (str(error), kind.instead))))
        raise


def _serve(name: str, authority: Authority) -> Iterator[BrokerServer]:
    server = start(name, authority)
    try:
        yield server
    finally:
        server.__exit__(None, None, None)


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Signs the certificates of every server here; its ``ca_certs`` are what clients trust."""
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="session")
def mosquitto(authority: Authority) -> Iterator[BrokerServer]:
    """Eclipse Mosquitto: MQTT 3.1.1 and 5."""
    yield from _serve("mosquitto", authority)


@pytest.fixture(scope="session")
def rabbitmq(authority: Authority) -> Iterator[BrokerServer]:
    """RabbitMQ with its AMQP 1.0 plugin."""
    yield from _serve("rabbitmq", authority)


@pytest.fixture(scope="session")
def artemis(authority: Authority) -> Iterator[BrokerServer]:
    """Apache ActiveMQ Artemis: AMQP 1.0."""
    yield from _serve("artemis", authority)


@pytest.fixture(scope="session")
def nats_server(authority: Authority) -> Iterator[BrokerServer]:
    """NATS with JetStream."""
    yield from _serve("nats", authority)


@pytest.fixture(scope="session")
def kafka(authority: Authority) -> Iterator[BrokerServer]:
    """Apache Kafka, one broker in KRaft mode."""
    yield from _serve("kafka", authority)


@pytest.fixture(scope="session")
def postgres(authority: Authority) -> Iterator[BrokerServer]:
    """PostgreSQL with ``fsync``."""
    yield from _serve("postgres", authority)


@pytest.fixture
def postgres_place(postgres: "Postgres") -> PostgresPlace:
    """An empty database of PostgreSQL."""
    return postgres.new_database()


@pytest.fixture(scope="session")
def kafka_cluster() -> Iterator["KafkaCluster"]:
    """Apache Kafka, three brokers. Who kills one starts it again, and waits until all is whole.

    For ``tests/conftest.py`` alone, so that it is started once in a run.
    """
    from kit.servers.kafka_cluster import KafkaCluster  # noqa: PLC0415 - few runs want it

    try:
        cluster = KafkaCluster().__enter__()
    except ServerNotHadError as error:
        not_run("kafka", str(error))
        raise
    try:
        yield cluster
    finally:
        cluster.__exit__(None, None, None)
