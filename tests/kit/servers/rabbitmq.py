"""RabbitMQ with its AMQP 1.0 plugin, as Debian packages it (``rabbitmq-server``)."""

import base64
import hashlib
import json
import shlex
import shutil
from pathlib import Path
from typing import Any, Final

from kit.ports import free_port
from kit.servers._base import (
    PASSWORD,
    USER,
    BrokerServer,
    ServerNotHadError,
)
from kit.servers._tls import Authority

FOLDERS: Final = ("/usr/lib/rabbitmq/bin", "/usr/local/sbin", "/usr/sbin")
"""Where its own starter may be. Debian's in ``/usr/sbin`` comes last: it insists on one user."""

LIMITED: Final = "limited"
"""A queue that refuses everything beyond its first message."""

RECENT: Final = "recent"
"""A queue that keeps its last thousand messages: one that grows makes the broker slower."""

READER: Final = "reader"
"""A user with the same password who may read everything and write nothing."""


class RabbitMq(BrokerServer):
    """One node with a name, ports, cookie and store of its own.

    Queues come into being when they are named (``/queue/<name>``, durable).
    """

    name = "rabbitmq"

    def __init__(self, authority: Authority | None = None) -> None:
        super().__init__(authority)
        self._names_port = free_port()
        self._node_port = free_port()

    def command(self) -> list[str]:
        """See ``BrokerServer``; Erlang's name server runs beside the node, and ends with it."""
        program = next((each for each in map(_starter, FOLDERS) if each.exists()), None)
        names = shutil.which("epmd")
        if program is None or names is None:
            raise ServerNotHadError(
                "RabbitMQ is not installed: sudo apt-get install rabbitmq-server"
            )
        self._write_configuration()
        script = f"{shlex.quote(names)} -port {self._names_port} & exec {shlex.quote(str(program))}"
        return ["/bin/sh", "-c", script]

    def environ(self) -> dict[str, str]:
        """Everything that is its own: it shares nothing with a node that the machine runs."""
        folder = self.folder
        return {
            "HOME": str(folder),  # of the cookie
            "ERL_EPMD_PORT": str(self._names_port),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": f"distributary-{self.port}@localhost",
            "RABBITMQ_DIST_PORT": str(self._node_port),
            "RABBITMQ_MNESIA_BASE": str(folder / "store"),
            "RABBITMQ_LOG_BASE": str(folder / "log"),
            "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq.conf"),
            "RABBITMQ_CONF_ENV_FILE": str(folder / "none.conf"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
            "RABBITMQ_PID_FILE": str(folder / "pid"),
            # Two schedulers that sleep when there is nothing to do: the tests need the machine too.
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+S 2:2 +sbwt none +sbwtdcpu none +sbwtdio none",
        }

    def has_on_disk(self, queue: str) -> bool:
        """Whether the declaration of *queue* would outlive a ``kill -9``.

        RabbitMQ 3 tells clients that a queue is there when its database (Mnesia) has written what
        is to be done, and writes that it was decided up to two seconds later. A kill in between
        takes the queue, with every message that was accepted for it.
        """
        folder = self.folder / "store" / f"distributary-{self.port}@localhost"
        log = (folder / "LATEST.LOG").read_bytes()
        at = log.rfind(queue.encode())
        if at >= 0:
            return log.find(b"committed", at) >= 0
        return queue.encode() in (folder / "rabbit_durable_queue.DCD").read_bytes()

    def _write_configuration(self) -> None:
        folder = self.folder
        (folder / "plugins").write_text("[rabbitmq_amqp1_0].\n")
        (folder / "definitions.json").write_text(json.dumps(_definitions()))
        lines = {
            "listeners.tcp.1": f"127.0.0.1:{self.port}",
            "listeners.ssl.1": f"127.0.0.1:{self.tls_port}",
            "ssl_options.cacertfile": self.authority.ca_file,
            "ssl_options.certfile": self.certificate.certificate,
            "ssl_options.keyfile": self.certificate.key,
            "ssl_options.verify": "verify_none",
            "amqp1_0.default_user": "none",  # nobody without a login
            "load_definitions": folder / "definitions.json",
            "log.console": "true",
            "log.console.level": "warning",
            "log.file": "false",
            "disk_free_limit.absolute": "50MB",
            "vm_memory_high_watermark.absolute": "1GB",
        }
        text = "".join(f"{key} = {value}\n" for key, value in lines.items())
        (folder / "rabbitmq.conf").write_text(text)


def _starter(folder: str) -> Path:
    return Path(folder) / "rabbitmq-server"


def _definitions() -> dict[str, Any]:
    """Users, rights and queues that are there from the beginning."""
    rights = [
        {"user": USER, "vhost": "/", "configure": ".*", "write": ".*", "read": ".*"},
        {"user": READER, "vhost": "/", "configure": "", "write": "", "read": ".*"},
    ]
    return {
        "users": [_user(USER), _user(READER)],
        "vhosts": [{"name": "/"}],
        "permissions": rights,
        "queues": [
            _queue(LIMITED, {"x-max-length": 1, "x-overflow": "reject-publish"}),
            _queue(RECENT, {"x-max-length": 1_000, "x-overflow": "drop-head"}),
        ],
    }


def _queue(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": name,
        "vhost": "/",
        "durable": True,
        "auto_delete": False,
        "arguments": arguments,
    }


def _user(name: str) -> dict[str, Any]:
    salt = b"salt"  # of a password that is no secret
    hashed = base64.b64encode(salt + hashlib.sha256(salt + PASSWORD.encode()).digest())
    return {
        "name": name,
        "password_hash": hashed.decode(),
        "hashing_algorithm": "rabbit_password_hashing_sha256",
        "tags": "",
    }
