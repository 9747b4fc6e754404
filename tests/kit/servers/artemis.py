"""Apache ActiveMQ Artemis, from its published archive: AMQP 1.0, also through a WebSocket."""

import shutil
import tempfile
from pathlib import Path
from typing import Final

from kit.servers._base import (
    PASSWORD,
    USER,
    BrokerServer,
    ServerNotHadError,
)
from kit.servers._maven import Artefact, jars
from kit.tarballs import unpack

ARCHIVE: Final = Artefact(
    "org.apache.activemq",
    "apache-artemis",
    "2.44.0",
    "1030320a8d1af6376361cd750bef12ef3cf7babc7a363bc6097340961d1e3e29",
    "-bin.tar.gz",
)
"""46 MB."""

FULL: Final = "full"
"""An address that refuses everything beyond its first few hundred bytes."""

BLOCKED: Final = "blocked"
"""An address that gives no credit beyond its first few hundred bytes."""

FORBIDDEN: Final = "forbidden"
"""An address that nobody may send to."""


class Artemis(BrokerServer):
    """One broker; queues come into being when they are named, and are durable.

    Attributes:
        port: Takes AMQP, and AMQP through a WebSocket.
    """

    name = "artemis"

    def command(self) -> list[str]:
        """See ``BrokerServer``."""
        java = shutil.which("java")
        if java is None:
            raise ServerNotHadError("Java is not installed: sudo apt-get install default-jre")
        home = fetch()
        self._write_configuration()
        folder = self.folder
        return [
            java,
            "-Xms128M",
            "-Xmx512M",
            "-XX:TieredStopAtLevel=1",  # a test is over before more pays
            "-XX:+UseSerialGC",
            f"-Djava.security.auth.login.config={folder / 'etc' / 'login.config'}",
            f"-Dartemis.home={home}",
            f"-Dartemis.instance={folder}",
            f"-Dartemis.instance.etc={folder / 'etc'}",
            f"-Dlog4j2.configurationFile={folder / 'etc' / 'log4j2.properties'}",
            "-classpath",
            str(home / "lib" / "artemis-boot.jar"),
            "org.apache.activemq.artemis.boot.Artemis",
            "run",
        ]

    def _write_configuration(self) -> None:
        etc = self.folder / "etc"
        etc.mkdir(exist_ok=True)
        for name in ("data", "lib", "log", "tmp"):
            (self.folder / name).mkdir(exist_ok=True)
        store = etc / "server.pem"
        parts = (self.certificate.key, self.certificate.certificate)
        store.write_text("".join(part.read_text() for part in parts))
        keys = f"sslEnabled=true;keyStoreType=PEM;keyStorePath={store}"
        (etc / "bootstrap.xml").write_text(_BOOTSTRAP.format(etc=etc))
        (etc / "broker.xml").write_text(
            _BROKER.format(folder=self.folder, port=self.port, tls_port=self.tls_port, keys=keys)
        )
        (etc / "management.xml").write_text(_MANAGEMENT)
        (etc / "login.config").write_text(_LOGIN)
        (etc / "artemis-users.properties").write_text(f"{USER} = {PASSWORD}\n")
        (etc / "artemis-roles.properties").write_text(f"tests = {USER}\n")
        (etc / "log4j2.properties").write_text(_LOG)


def fetch() -> Path:
    """The unpacked archive, in the user's cache.

    Raises:
        ServerNotHadError: It cannot be fetched.
    """
    folder = jars(f"{ARCHIVE.name}-{ARCHIVE.version}", [ARCHIVE])
    home = folder / f"{ARCHIVE.name}-{ARCHIVE.version}"
    if not home.exists():
        # Aside, and renamed when it is whole: others may look, and this may be stopped half way.
        with tempfile.TemporaryDirectory(dir=folder) as aside:
            unpack(folder / ARCHIVE.file_name, Path(aside))
            try:
                (Path(aside) / home.name).rename(home)
            except OSError:
                if not home.exists():  # else another run was quicker
                    raise
    return home


_BOOTSTRAP: Final = """<?xml version="1.0"?>
<broker xmlns="http://activemq.apache.org/schema">
  <jaas-security domain="tests"/>
  <server configuration="file:{etc}/broker.xml"/>
</broker>
"""

_MANAGEMENT: Final = """<?xml version="1.0"?>
<management-context xmlns="http://activemq.apache.org/schema"/>
"""

_LOGIN: Final = """tests {
  org.apache.activemq.artemis.spi.core.security.jaas.PropertiesLoginModule required
    org.apache.activemq.jaas.properties.user="artemis-users.properties"
    org.apache.activemq.jaas.properties.role="artemis-roles.properties";
};
"""

_LOG: Final = """rootLogger.level = WARN
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d %-5level [%logger] %msg%n
"""

_BROKER: Final = """<?xml version="1.0"?>
<configuration xmlns="urn:activemq">
  <core xmlns="urn:activemq:core">
    <name>tests</name>
    <persistence-enabled>true</persistence-enabled>
    <journal-type>NIO</journal-type>
    <journal-file-size>1M</journal-file-size>
    <journal-directory>{folder}/data/journal</journal-directory>
    <bindings-directory>{folder}/data/bindings</bindings-directory>
    <paging-directory>{folder}/data/paging</paging-directory>
    <large-messages-directory>{folder}/data/large</large-messages-directory>
    <max-disk-usage>100</max-disk-usage>
    <acceptors>
      <acceptor name="plain">tcp://127.0.0.1:{port}?protocols=AMQP;amqpCredits=1000</acceptor>
      <acceptor name="tls">tcp://127.0.0.1:{tls_port}?protocols=AMQP;{keys}</acceptor>
    </acceptors>
    <security-settings>
      <security-setting match="#">
        <permission type="createNonDurableQueue" roles="tests"/>
        <permission type="createDurableQueue" roles="tests"/>
        <permission type="createAddress" roles="tests"/>
        <permission type="consume" roles="tests"/>
        <permission type="browse" roles="tests"/>
        <permission type="send" roles="tests"/>
      </security-setting>
      <security-setting match="forbidden">
        <permission type="consume" roles="tests"/>
      </security-setting>
    </security-settings>
    <address-settings>
      <address-setting match="#">
        <auto-delete-queues>false</auto-delete-queues>
        <auto-delete-addresses>false</auto-delete-addresses>
        <default-address-routing-type>ANYCAST</default-address-routing-type>
        <default-queue-routing-type>ANYCAST</default-queue-routing-type>
      </address-setting>
      <address-setting match="full">
        <max-size-bytes>1</max-size-bytes>
        <address-full-policy>FAIL</address-full-policy>
      </address-setting>
      <address-setting match="blocked">
        <max-size-bytes>1</max-size-bytes>
        <address-full-policy>BLOCK</address-full-policy>
      </address-setting>
    </address-settings>
    <addresses>
      <address name="full"><anycast><queue name="full"/></anycast></address>
      <address name="blocked"><anycast><queue name="blocked"/></anycast></address>
      <address name="forbidden"><anycast><queue name="forbidden"/></anycast></address>
    </addresses>
  </core>
</configuration>
"""
