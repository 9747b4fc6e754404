"""Mosquitto, the broker of MQTT 3.1.1 and MQTT 5."""

import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Final

from kit.ports import free_port
from kit.servers._base import (
    PASSWORD,
    USER,
    BrokerServer,
    ServerNotHadError,
)
from kit.servers._tls import Authority

FORBIDDEN: Final = "forbidden/place"
"""A topic where ``USER`` may not publish; nor at any other below ``forbidden``."""

SAVE_S_MAX: Final = 60.0
"""Longest time for writing what it holds: tests hold little."""

_PROGRAMS: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin"
"""Debian has the server where users have no path to."""


class Mosquitto(BrokerServer):
    """Mosquitto with a plain, a TLS and a WebSocket listener; keeps sessions and what they hold.

    Args:
        authority: Signs its certificate; None: one of its own.
        message_bytes_max: Larger payloads are refused (MQTT 5: 0x95; MQTT 3 hears nothing of it);
            0: none are.
        packet_bytes_max: Said at the login (MQTT 5); 0: nothing is.
        in_flight_max: Receive Maximum that is said at the login (MQTT 5); 0: none is.
        qos_max: Highest QoS that is taken.
        retains: Whether messages can be retained.
        options: Further lines of its configuration.

    Attributes:
        ws_port: WebSocket listener.
        wss_port: The same with TLS.
        certified_port: TLS listener where a client certificate of the authority is the account.
    """

    name = "mosquitto"

    def __init__(
        self,
        authority: Authority | None = None,
        *,
        message_bytes_max: int = 0,
        packet_bytes_max: int = 0,
        in_flight_max: int = 0,
        qos_max: int = 2,
        retains: bool = True,
        options: tuple[str, ...] = (),
    ) -> None:
        super().__init__(authority)
        self.ws_port = free_port()
        self.wss_port = free_port()
        self.certified_port = free_port()
        limits = {
            "message_size_limit": message_bytes_max,
            "max_packet_size": packet_bytes_max,
        }
        self._options = [f"{name} {value}" for name, value in limits.items() if value]
        self._options += [
            f"max_inflight_messages {in_flight_max}",
            f"retain_available {str(retains).lower()}",
            *options,
        ]
        self._qos_max = qos_max

    def command(self) -> list[str]:
        """Write its files; see ``BrokerServer``."""
        program = _program("mosquitto")
        passwords = self.folder / "passwords"
        if not passwords.exists():
            _run([_program("mosquitto_passwd"), "-c", "-b", str(passwords), USER, PASSWORD])
        rules = self.folder / "rules"
        rules.write_text(f"user {USER}\ntopic readwrite #\ntopic deny forbidden/#\n")
        for path in (passwords, rules):
            path.chmod(0o600)
        configuration = self.folder / "mosquitto.conf"
        configuration.write_text("\n".join(self._lines(passwords, rules)) + "\n")
        return [program, "-c", str(configuration)]

    def save(self) -> None:
        """Have it write what it holds to disk now; by itself it does so every few seconds.

        Raises:
            RuntimeError: It did not.
        """
        before = self._saved_ns()
        self._signal(signal.SIGUSR1)
        until_s = time.monotonic() + SAVE_S_MAX
        while self._saved_ns() == before:
            if time.monotonic() > until_s:
                raise RuntimeError("Mosquitto did not save")
            time.sleep(0.01)

    def _saved_ns(self) -> int:
        try:
            return (self.folder / "mosquitto.db").stat().st_mtime_ns
        except FileNotFoundError:
            return 0

    def _lines(self, passwords: Path, rules: Path) -> list[str]:
        shared = [
            "allow_anonymous false",
            f"password_file {passwords}",
            f"acl_file {rules}",
            "persistence true",
            f"persistence_location {self.folder}/",
            "autosave_interval 1",
            "max_queued_messages 1000000",  # with 0 a refusal ends the connection (2.0.11)
            "log_type error",
            "log_type warning",
            "log_type notice",
            "user root",  # else it would look for an account of its own, as root
            *self._options,
        ]
        tls = [f"certfile {self.certificate.certificate}", f"keyfile {self.certificate.key}"]
        each = [f"max_qos {self._qos_max}"]
        return [
            *shared,
            f"listener {self.port} 127.0.0.1",
            *each,
            f"listener {self.tls_port} 127.0.0.1",
            *tls,
            *each,
            f"listener {self.ws_port} 127.0.0.1",
            "protocol websockets",
            *each,
            f"listener {self.wss_port} 127.0.0.1",
            "protocol websockets",
            *tls,
            *each,
            f"listener {self.certified_port} 127.0.0.1",
            *tls,
            *each,
            f"cafile {self.authority.ca_file}",
            "require_certificate true",
            "use_identity_as_username true",
        ]


def _program(name: str) -> str:
    found = shutil.which(name) or shutil.which(name, path=_PROGRAMS)
    if found is None:
        raise ServerNotHadError(f"{name} is not here: sudo apt-get install mosquitto")
    return found


def _run(command: list[str]) -> None:
    subprocess.run(command, check=True, capture_output=True, timeout=20)
