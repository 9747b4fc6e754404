"""The server's certificates over all processes: read by ``serve`` alone, used by all.

``serve`` reads the files, checks them, and writes their content to anonymous memory that its
children inherit. So all processes change to a new certificate together; a pair that does not fit
together never reaches one; and a receiver that restarts meanwhile has the newest good pair. The key
is in no file but the operator's.
"""

import asyncio
import os
import ssl
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec
from structlog.typing import FilteringBoundLogger

from distributary.core.clock import Clock
from distributary.core.errors import SettingsError
from distributary.core.meter import Meter
from distributary.net.tls import (
    HTTP_ONLY,
    Handshakes,
    ServerCertificates,
    TlsFiles,
    make_context,
    read_certificates,
)
from distributary.server.settings import Settings

LOOK_S: Final = 1.0
"""How often the files are looked at: a new certificate holds within two seconds."""

EXPIRES_SOON_S: Final = 7 * 86_400.0
"""An expiry so near is warned of: renewal has failed for weeks by then."""

WARN_S: Final = 86_400.0
"""Seconds between two warnings about the same certificate."""

_HEAD: Final = struct.Struct("<QLL")  # number, length and checksum of what follows


def files_of(settings: Settings) -> TlsFiles | None:
    """Returns the files that *settings* name; None: no TLS.

    Raises:
        SettingsError: The settings do not fit together.
    """
    certificate, key = settings.tls_cert_file, settings.tls_key_file
    faults = []
    if (certificate is None) != (key is None):
        given, missing = "tls_cert_file", "tls_key_file"
        if certificate is None:
            given, missing = missing, given
        faults.append(f"{given} is set, and {missing} is not. Set both, or neither")
    if settings.tls_client_certs != "off" and settings.tls_client_ca_file is None:
        faults.append(
            f"tls_client_certs is {settings.tls_client_certs}, and tls_client_ca_file is not set."
            " Name the authorities that sign the clients' certificates"
        )
    if settings.tls_client_ca_file is not None and settings.tls_client_certs == "off":
        faults.append(
            "tls_client_ca_file is set, and tls_client_certs is off."
            " Set tls_client_certs to optional or required"
        )
    if settings.tls_client_certs != "off" and certificate is None and key is None:
        faults.append("tls_client_certs needs TLS. Set tls_cert_file and tls_key_file")
    if faults:
        raise SettingsError("\n".join(faults))
    if certificate is None or key is None:
        return None
    return TlsFiles(certificate, key, settings.tls_client_ca_file, settings.tls_client_certs)


class TlsMemory:
    """The newest good certificates, in memory that several processes share.

    Args:
        fd: Of the memory, inherited; None: make it.
    """

    def __init__(self, fd: int | None = None) -> None:
        self.fd = os.memfd_create("distributary-tls", os.MFD_CLOEXEC) if fd is None else fd

    def write(self, number: int, certificates: ServerCertificates) -> None:
        """Replace what is there. One process alone writes."""
        body = msgspec.json.encode(certificates)
        # Readers see a torn write by its checksum, and look again.
        os.pwrite(self.fd, _HEAD.pack(number, len(body), zlib.crc32(body)) + body, 0)

    def number(self) -> int:
        """Returns the number of the newest certificates."""
        found: int = _HEAD.unpack(os.pread(self.fd, _HEAD.size, 0))[0]
        return found

    def read(self) -> tuple[int, ServerCertificates] | None:
        """Returns the certificates and their number; None: they are being written."""
        number, length, checksum = _HEAD.unpack(os.pread(self.fd, _HEAD.size, 0))
        body = os.pread(self.fd, length, _HEAD.size)
        if zlib.crc32(body) != checksum or self.number() != number:
            return None
        return number, msgspec.json.decode(body, type=ServerCertificates)


class TlsContexts:
    """The contexts of one process, renewed from the shared memory.

    Args:
        memory: Written at least once.
        alpn: Protocols of the listener; see ``net.tls``.
        ask_clients: Whether clients are asked for certificates, if the settings say so.
    """

    def __init__(
        self, memory: TlsMemory, alpn: tuple[str, ...] = HTTP_ONLY, *, ask_clients: bool = True
    ) -> None:
        self._memory = memory
        self._alpn = alpn
        self._ask_clients = ask_clients
        self._number = -1
        self._authorities: frozenset[str] = frozenset()
        self._context: ssl.SSLContext | None = None
        while self._context is None:  # torn by a write at this very moment
            self.renew()

    def __call__(self) -> ssl.SSLContext:
        """Returns the context for the next connection."""
        assert self._context is not None
        return self._context

    @property
    def changed(self) -> bool:
        """Whether there are newer certificates; costs one small read."""
        return self._memory.number() != self._number

    def renew(self) -> bool:
        """Take over newer certificates; takes some milliseconds, so not on the loop.

        Returns:
            Whether an authority of clients' certificates is trusted no more.
        """
        found = self._memory.read()
        if found is None:
            return False
        number, certificates = found
        self._context = make_context(certificates, alpn=self._alpn, ask_clients=self._ask_clients)
        before, self._authorities = self._authorities, _blocks(certificates.client_ca or "")
        self._number = number
        return not before <= self._authorities


def _blocks(pem: str) -> frozenset[str]:
    """The certificates in *pem*, whatever their order."""
    return frozenset(block.strip() for block in pem.split("-----END CERTIFICATE-----"))


class TlsWatch:
    """Follows the files, and publishes each new good pair.

    Args:
        files: Where the certificates are.
        memory: Where they are published.
        clock: For the expiry.
        log: For changes and refusals.

    Raises:
        SettingsError: The files are unusable; a line for each fault.
    """

    def __init__(
        self, files: TlsFiles, memory: TlsMemory, clock: Clock, log: FilteringBoundLogger
    ) -> None:
        self._files = files
        self._memory = memory
        self._clock = clock
        self._log = log
        self._stamps = _stamps(files)
        self._number = 0
        self._faults = ""  # of the last look
        self._told = ""
        self._warned_ms = float("-inf")
        self._certificates = read_certificates(files)
        memory.write(0, self._certificates)

    def change(self, files: TlsFiles) -> None:
        """Follow *files* from now on; blocks.

        Raises:
            SettingsError: They are unusable; nothing has changed.
        """
        stamps, found = _stamps(files), self._read(files)
        self._files, self._stamps = files, stamps
        self._publish(found)

    def _read(self, files: TlsFiles) -> ServerCertificates:
        found = read_certificates(files)
        now_s = self._clock.wall_ms() / 1000
        if found.not_after_s <= now_s < self._certificates.not_after_s:
            raise SettingsError(
                f"tls_cert_file {files.certificate}: has expired, and the certificate in use has"
                " not. Renew it"
            )
        return found

    def _publish(self, found: ServerCertificates) -> None:
        self._faults = self._told = ""
        if found == self._certificates:
            return
        self._certificates = found
        self._number += 1
        self._memory.write(self._number, found)
        self._warned_ms = float("-inf")
        self._log.info("tls-reloaded", certificate=str(self._files.certificate), **self._end())

    def look(self) -> None:
        """Read the files if they have changed; unusable ones keep those in use. Blocks."""
        stamps = _stamps(self._files)
        if stamps == self._stamps and not self._faults:
            return
        try:
            found = self._read(self._files)
        except SettingsError as error:
            # The first time may be between the writing of certificate and key.
            if self._faults == str(error) != self._told:
                self._told = str(error)
                self._log.error(
                    "tls-reload-refused",
                    faults=self._told.splitlines(),
                    effect="the certificate in use stays",
                )
            self._faults = str(error)
            self._stamps = stamps
            return
        self._stamps = stamps
        self._publish(found)

    def warn(self) -> None:
        """Warn once a day of a certificate that has expired, or is about to."""
        now_ms = self._clock.wall_ms()
        left_s = self._certificates.not_after_s - now_ms / 1000
        if left_s > EXPIRES_SOON_S or now_ms - self._warned_ms < WARN_S * 1000:
            return
        self._warned_ms = now_ms
        fields = {
            "certificate": str(self._files.certificate),
            "remedy": "renew it; the files are read again when they change",
            **self._end(),
        }
        if left_s <= 0:
            self._log.error("tls-certificate-expired", **fields)
        else:
            self._log.warning("tls-certificate-expires", **fields)

    def _end(self) -> dict[str, float]:
        left_s = self._certificates.not_after_s - self._clock.wall_ms() / 1000
        return {"days_left": round(left_s / 86_400, 1)}

    @property
    def not_after_s(self) -> float:
        """When the certificate in use expires, seconds since 1970."""
        return self._certificates.not_after_s

    async def look_on(self) -> None:
        """Look at the files, off the loop; warn of an expiry."""
        try:
            await asyncio.to_thread(self.look)
        except OSError as error:  # descriptors or memory are short for now
            self._log.error("tls-files-not-read", error=str(error))
        self.warn()


class Tls:
    """TLS of the control process: what follows the files, and its own listeners' part.

    Args:
        files: Where the certificates are.
        clock: For the expiry.
        log: For changes and refusals.

    Raises:
        SettingsError: The files are unusable; a line for each fault.

    Attributes:
        fd: Of the memory that children inherit.
        amqp: Handshakes at the AMQP port.
    """

    def __init__(self, files: TlsFiles, clock: Clock, log: FilteringBoundLogger) -> None:
        memory = TlsMemory()
        self.fd = memory.fd
        self._watch = TlsWatch(files, memory, clock, log)
        self._main = TlsContexts(memory)
        self._health = TlsContexts(memory, ask_clients=False)
        self._amqp = TlsContexts(memory, alpn=())
        self.amqp = Handshakes(self._amqp)

    def of_probe(self, main: bool) -> ssl.SSLContext:
        """Returns the context for health checks: at the main port or at their own.

        Balancers have no certificates of clients, so their own port asks for none.
        """
        return self._main() if main else self._health()

    def change(self, settings: Settings) -> None:
        """Read the files that *settings* name; blocks.

        Raises:
            SettingsError: They are unusable; nothing has changed.
        """
        files = files_of(settings)
        assert files is not None
        self._watch.change(files)

    async def follow(
        self, meter: Meter | None = None, removed: Callable[[], None] = lambda: None
    ) -> None:
        """Follow the files; never returns.

        Args:
            meter: Gets failed handshakes, and the time of expiry; None: nobody reads them here.
            removed: Called when an authority of clients is trusted no more.
        """
        meter = Meter() if meter is None else meter
        before = dict(meter.counters)
        while True:
            await self._watch.look_on()
            if await asyncio.to_thread(self._renew):
                removed()
            meter.gauges["tls_certificate_not_after_seconds"] = self._watch.not_after_s
            count_handshakes(meter, before, "amqp", self.amqp)
            await asyncio.sleep(LOOK_S)

    def _renew(self) -> bool:
        removed = False
        for contexts in (self._main, self._health, self._amqp):
            removed |= contexts.changed and contexts.renew()
        return removed


class ReceiverTls:
    """TLS of a receiver.

    Args:
        fd: Of the shared memory, inherited.

    Attributes:
        handshakes: At the main port.
    """

    def __init__(self, fd: int) -> None:
        self._contexts = TlsContexts(TlsMemory(fd))
        self.handshakes = Handshakes(self._contexts)

    async def look(self) -> bool:
        """Take over newer certificates; returns whether an authority is trusted no more."""
        return self._contexts.changed and await asyncio.to_thread(self._contexts.renew)


def count_handshakes(meter: Meter, before: dict[str, float], listener: str, of: Handshakes) -> None:
    """Write the failures of a listener to *meter*, above the counts *before*."""
    for reason, count in of.failures.items():
        name = f'tls_handshake_failures_total{{listener="{listener}",reason="{reason}"}}'
        meter.counters[name] = before.get(name, 0) + count
    meter.gauges[f'tls_handshakes_open{{listener="{listener}"}}'] = of.count


def _stamps(files: TlsFiles) -> tuple[tuple[int, int, int] | None, ...]:
    """What changes when a file does, or the folder that a link leads to; None: no file."""
    return tuple(map(_stamp, files.paths))


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino, found.st_size
