"""nats-server with JetStream, as Debian ships it."""

import asyncio
import json
import shutil
from typing import Any, Final, Literal

from nats import connect
from nats.aio.client import Client

from kit.ports import free_port
from kit.servers._base import (
    PASSWORD,
    USER,
    BrokerServer,
    ServerNotHadError,
)
from kit.servers._tls import Authority, Certificate

NARROW_USER: Final = "narrow"
"""Logs in with ``PASSWORD`` too, and may publish to ``narrow.>`` and take replies, nothing else:
in particular it may not ask JetStream anything."""

SILENT_USER: Final = "silent"
"""Logs in with ``PASSWORD`` too, and may subscribe to nothing: no acknowledgement reaches it."""

FORBIDDEN: Final = "forbidden.>"
"""Where ``USER`` may not publish."""

ASKED_AT_ONCE: Final = 500
"""Messages asked for side by side: more than the server answers in the client's 5 s would fail."""

Tls = Literal["offered", "required", "none"]


class NatsServer(BrokerServer):
    """One nats-server on loopback, with JetStream on disk.

    A NATS server has one listener for clients, so ``tls_port`` is ``port``: whoever asks for TLS
    gets it there, and who does not need not have it.

    Args:
        authority: Signs its certificate.
        tls: Whether TLS is offered, required of every client, or not there at all.
        token: The one token that logs in, instead of users with passwords.
        certificate: Instead of its own.
        max_payload: Bytes of the largest message, headers included.
        jetstream: Whether it has JetStream.
        ws_tls: Whether the WebSocket listener speaks TLS.
        certified: Whether it requires a client certificate of the authority.

    Attributes:
        ws_port: Listener for the protocol in WebSocket frames.
    """

    name = "nats"

    def __init__(
        self,
        authority: Authority | None = None,
        *,
        tls: Tls = "offered",
        token: str | None = None,
        certificate: Certificate | None = None,
        max_payload: int = 2 * 1024 * 1024,
        jetstream: bool = True,
        ws_tls: bool = False,
        certified: bool = False,
    ) -> None:
        super().__init__(authority)
        self.certificate = certificate or self.certificate
        self.tls_port = self.port
        self.ws_port = free_port()
        self._tls = tls
        self._token = token
        self._max_payload = max_payload
        self._jetstream = jetstream
        self._ws_tls = ws_tls
        self._certified = certified

    def command(self) -> list[str]:
        """What to run; the configuration is written anew at each start."""
        program = shutil.which("nats-server", path="/usr/sbin:/usr/bin:/usr/local/bin")
        program = shutil.which("nats-server") or program
        if program is None:
            raise ServerNotHadError("nats-server is not here: sudo apt-get install nats-server")
        path = self.folder / "nats.conf"
        path.write_text(json.dumps(self._configuration(), indent=1))  # JSON is valid in its files
        return [program, "--config", str(path)]

    def _configuration(self) -> dict[str, Any]:
        configuration: dict[str, Any] = {
            "listen": f"127.0.0.1:{self.port}",
            "server_name": "test",
            "max_payload": self._max_payload,
            "websocket": {"listen": f"127.0.0.1:{self.ws_port}"}
            | ({"tls": self._files()} if self._ws_tls else {"no_tls": True}),
            "authorization": self._authorization(),
        }
        if self._jetstream:
            configuration["jetstream"] = {"store_dir": str(self.folder / "jetstream")}
        if self._tls != "none":
            configuration["tls"] = self._files()
            if self._certified:
                verified = {"verify": True, "ca_file": str(self.authority.ca_file)}
                configuration["tls"] |= verified
            configuration["allow_non_tls"] = self._tls == "offered"
        return configuration

    def _files(self) -> dict[str, str]:
        return {
            "cert_file": str(self.certificate.certificate),
            "key_file": str(self.certificate.key),
        }

    def _authorization(self) -> dict[str, Any]:
        if self._token is not None:
            return {"token": self._token}
        narrow = {"publish": {"allow": ["narrow.>"]}, "subscribe": {"allow": ["_INBOX.>"]}}
        silent = {"publish": {"allow": [">"]}, "subscribe": {"deny": [">"]}}
        return {
            "users": [
                {
                    "user": USER,
                    "password": PASSWORD,
                    "permissions": {"publish": {"deny": [FORBIDDEN]}, "subscribe": [">"]},
                },
                {"user": NARROW_USER, "password": PASSWORD, "permissions": narrow},
                {"user": SILENT_USER, "password": PASSWORD, "permissions": silent},
            ]
        }

    async def client(self) -> Client:
        """A client of the official library, logged in; for whoever watches or prepares."""
        login: dict[str, Any] = {"user": USER, "password": PASSWORD}
        if self._token is not None:
            login = {"token": self._token}
        return await connect(f"nats://127.0.0.1:{self.port}", allow_reconnect=False, **login)

    async def create_stream(self, name: str, *subjects: str, **settings: Any) -> None:
        """Have a stream that holds *subjects*.

        Args:
            name: Of the stream.
            subjects: What it stores, wildcards allowed.
            settings: As ``nats.js.api.StreamConfig`` names them.
        """
        client = await self.client()
        try:
            await client.jetstream().add_stream(name=name, subjects=list(subjects), **settings)
        finally:
            await client.close()

    async def stored(self, stream: str) -> list[tuple[str, dict[str, str], bytes]]:
        """Subject, headers and payload of every message in *stream*, oldest first."""
        client = await self.client()
        try:
            jetstream = client.jetstream()
            state = (await jetstream.stream_info(stream)).state
            numbers = range(max(1, state.first_seq), state.last_seq + 1)
            found = []
            for first in range(0, len(numbers), ASKED_AT_ONCE):
                some = numbers[first : first + ASKED_AT_ONCE]
                found += await asyncio.gather(*[jetstream.get_msg(stream, each) for each in some])
            return [
                (message.subject or "", message.headers or {}, message.data or b"")
                for message in found
            ]
        finally:
            await client.close()
