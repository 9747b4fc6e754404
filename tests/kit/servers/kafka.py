"""Apache Kafka in KRaft mode, one node: broker and controller in one process, from its jars."""

import importlib
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from distributary.core.errors import SettingsError
from distributary.spark import find_java
from kit.ports import free_port
from kit.running_server import wait_until
from kit.servers import _maven
from kit.servers._base import (
    PASSWORD,
    USER,
    BrokerServer,
    ServerNotHadError,
)
from kit.servers._tls import Authority

VERSION: Final = "4.1.1"

FORBIDDEN: Final = "forbidden"
"""A topic that ``USER`` may see and must not write to."""

BLOCKED_HOST: Final = "169.254.169.254"
"""What the listener at ``lying_port`` says its address is: no server may be sent there."""

_CLUSTER_ID: Final = "MkU3OEVBNTcwNTJENDM2Qg"
_ADMIN: Final = "broker"
_ADMIN_PASSWORD: Final = "only-for-tests"  # noqa: S105 - of servers that live for a test

_JVM: Final = ("-Xms256m", "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""A small heap, and compiled quickly rather than well: it lives for a minute."""

_ANSWER_S_MAX: Final = 60.0

_CONFIGURATION: Final = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller_port}
listeners=PLAIN://127.0.0.1:{port},TLS://127.0.0.1:{tls_port},RELAYED://127.0.0.1:{relayed_port},\
WATCHED://127.0.0.1:{watched_port},LYING://127.0.0.1:{lying_port},\
CONTROLLER://127.0.0.1:{controller_port}
advertised.listeners=PLAIN://127.0.0.1:{port},TLS://localhost:{tls_port},\
RELAYED://127.0.0.1:{relay_port},WATCHED://127.0.0.1:{watch_port},\
LYING://{blocked_host}:{lying_port}
listener.security.protocol.map=PLAIN:SASL_PLAINTEXT,TLS:SASL_SSL,RELAYED:SASL_PLAINTEXT,\
WATCHED:SASL_PLAINTEXT,LYING:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=PLAIN
controller.listener.names=CONTROLLER
sasl.enabled.mechanisms=PLAIN,OAUTHBEARER
sasl.mechanism.inter.broker.protocol=PLAIN
ssl.keystore.type=PEM
ssl.keystore.location={keystore}
ssl.client.auth=none
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:{admin}
allow.everyone.if.no.acl.found=true
auto.create.topics.enable=false
log.dirs={folder}/log
log.cleaner.enable=false
group.initial.rebalance.delay.ms=0
num.network.threads=2
num.io.threads=2
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
"""

_LOGINS: Final = """\
listener.name.{listener}.plain.sasl.jaas.config=\
org.apache.kafka.common.security.plain.PlainLoginModule required \
username="{admin}" password="{admin_password}" \
user_{admin}="{admin_password}" user_{user}="{password}";
listener.name.{listener}.oauthbearer.sasl.jaas.config=\
org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required \
unsecuredLoginStringClaim_sub="{admin}";
"""


def fetch() -> Path:
    """The folder with Kafka's jars; fetches what is missing (43 MB).

    Raises:
        ServerNotHadError: It cannot be fetched.
    """
    artefacts = _maven.listed(Path(__file__).with_name("kafka.artefacts"))
    return _maven.jars(f"kafka-{VERSION}", artefacts)


def runner(jvm: Sequence[str]) -> list[str]:
    """Java with Kafka's jars and the options *jvm*; a class and its arguments follow.

    Raises:
        ServerNotHadError: There is no Java, or the jars cannot be fetched.
    """
    try:
        java = find_java(os.environ)
    except SettingsError as error:
        raise ServerNotHadError(f"Kafka needs Java: {error}") from error
    return [str(java.path / "bin" / "java"), *jvm, "-cp", f"{fetch()}/*"]


def format_storage(run: Sequence[str], cluster_id: str, configuration: Path) -> None:
    """Prepare the folder that *configuration* names, by what ``runner`` returned."""
    arguments = ["format", "-t", cluster_id, "-c", str(configuration)]
    subprocess.run([*run, "kafka.tools.StorageTool", *arguments], check=True, capture_output=True)


class Kafka(BrokerServer):
    """One broker. ``USER`` logs in by PLAIN, or by OAUTHBEARER with a token that nobody signed.

    Topics are not made by writing to them: see ``create_topic``.

    Attributes:
        relayed_port: Plain listener for a ``CuttingProxy`` before it...
        relay_port: ...which must listen here: this is the address that clients are told.
        watched_port: The same for a ``KafkaRelay``...
        watch_port: ...which must listen here.
        lying_port: Plain listener that tells clients to go to ``BLOCKED_HOST``.
    """

    name = "kafka"

    def __init__(self, authority: Authority | None = None) -> None:
        super().__init__(authority)
        self.relayed_port = free_port()
        self.relay_port = free_port()
        self.watched_port = free_port()
        self.watch_port = free_port()
        self.lying_port = free_port()
        self._controller_port = free_port()
        self._formatted = False

    def command(self) -> list[str]:
        """Java with Kafka's jars; see ``BrokerServer``."""
        run = runner(_JVM)
        configuration = self._configure()
        if not self._formatted:
            format_storage(run, _CLUSTER_ID, configuration)
        return [*run, "kafka.Kafka", str(configuration)]

    def start(self) -> None:
        """Start it and wait until it is ready; see ``BrokerServer``."""
        super().start()
        if not self._formatted:
            self._formatted = True
            self._forbid()

    def _configure(self) -> Path:
        keystore = self.folder / "keystore.pem"
        certificate = self.certificate
        keystore.write_bytes(certificate.key.read_bytes() + certificate.certificate.read_bytes())
        text = _CONFIGURATION.format(
            port=self.port,
            tls_port=self.tls_port,
            relayed_port=self.relayed_port,
            relay_port=self.relay_port,
            watched_port=self.watched_port,
            watch_port=self.watch_port,
            lying_port=self.lying_port,
            controller_port=self._controller_port,
            blocked_host=BLOCKED_HOST,
            keystore=keystore,
            folder=self.folder,
            admin=_ADMIN,
        )
        for listener in ("plain", "tls", "relayed", "watched", "lying"):
            text += _LOGINS.format(
                listener=listener,
                admin=_ADMIN,
                admin_password=_ADMIN_PASSWORD,
                user=USER,
                password=PASSWORD,
            )
        path = self.folder / "server.properties"
        path.write_text(text)
        return path

    def client(self, *, user: str = USER, password: str = PASSWORD) -> dict[str, Any]:
        """What librdkafka must know to be let in at the plain listener."""
        return {
            "bootstrap.servers": f"127.0.0.1:{self.port}",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": user,
            "sasl.password": password,
            "log_level": 0,
        }

    def create_topic(self, name: str, partitions: int = 1, **config: str) -> None:
        """Make a topic.

        Args:
            name: Its name.
            partitions: How many it has.
            config: Its settings, with ``_`` for ``.``: ``max_message_bytes="2000"``.
        """
        self.create_topics([name], partitions, **config)

    def create_topics(self, names: Sequence[str], partitions: int = 1, **config: str) -> None:
        """Make several topics that are alike; see ``create_topic``."""
        settings = {key.replace("_", "."): value for key, value in config.items()}
        topics = [_library().NewTopic(name, partitions, 1, config=settings) for name in names]
        admin = self._admin()  # ends its requests when it is forgotten
        for made in admin.create_topics(topics).values():
            made.result(_ANSWER_S_MAX)
        # The controller has answered; the broker hears of it later, and refuses until then.
        wait_until(lambda: _led(admin, names), _ANSWER_S_MAX, "the topics have leaders", 0.02)

    def _forbid(self) -> None:
        admin = _library()
        self.create_topic(FORBIDDEN)
        kind, pattern = admin.ResourceType.TOPIC, admin.ResourcePatternType.LITERAL
        see, write = admin.AclOperation.DESCRIBE, admin.AclOperation.WRITE
        allow, deny = admin.AclPermissionType.ALLOW, admin.AclPermissionType.DENY
        rules = [
            admin.AclBinding(kind, FORBIDDEN, pattern, "User:*", "*", see, allow),
            admin.AclBinding(kind, FORBIDDEN, pattern, f"User:{USER}", "*", write, deny),
        ]
        client = self._admin()
        for made in client.create_acls(rules).values():
            made.result(_ANSWER_S_MAX)

    def _admin(self) -> Any:
        return _library().AdminClient(self.client(user=_ADMIN, password=_ADMIN_PASSWORD))


def _led(admin: Any, names: Sequence[str]) -> bool:
    """Whether the broker knows who leads each partition of the topics."""
    known = admin.list_topics(timeout=_ANSWER_S_MAX).topics
    return all(
        name in known
        and known[name].partitions
        and all(each.leader >= 0 for each in known[name].partitions.values())
        for name in names
    )


def _library() -> Any:
    """The part of the client that administers; it ships no complete type information."""
    return importlib.import_module("confluent_kafka.admin")
