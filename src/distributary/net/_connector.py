"""The connector: dials every outbound connection, and enforces the address rule.

Called by the transports, and by all else that dials an address named by a user (token URLs,
handshakes). Resolves once, checks every address, dials a checked address and not the name, then
checks the peer: no gap for DNS rebinding. Ignores proxies of the environment.
"""

import asyncio
import dataclasses
import ipaddress
import os
import socket
import ssl
from collections.abc import Callable
from typing import Final, TypeAlias

from distributary.core.deliver import endpoint as _endpoint
from distributary.core.deliver.credential import ClientCertificate
from distributary.core.deliver.destination import Destination
from distributary.core.deliver.endpoint import Endpoint
from distributary.core.deliver.transport import BLOCKED
from distributary.core.errors import TransportError
from distributary.core.protocol import protocols
from distributary.core.turns import Places
from distributary.net import _addresses
from distributary.net._resolver import Resolver, domain_of
from distributary.net.own_nodes import OwnNodes

ADDRESSES_TRIED_MAX: Final = 4
"""Addresses of one name that one attempt dials: a hundred dead ones must not use up its time."""

RECEIVE_BYTES: Final = 128 * 1024
"""Receive buffer in the kernel, bytes. By default a sink can fill 6 MB for each connection."""

CONTEXTS_MAX: Final = 64
"""TLS contexts cached for sinks with custom certificates: each holds the system's too, about a
megabyte. The least recently used is evicted first."""

CONTEXTS_MADE_MAX: Final = 1
"""Contexts made at a time, each in a thread: one reads the system's certificates, some 20 ms of a
processor. Namespaces take turns, and in each its domains: one with many such sinks delays no other.
Who no longer waits for a context gives up its turn."""

DIAL_S_EACH: Final = 3.0
"""Time for one address before the next one is dialled, if there is one; a lost SYN is resent after
1 s."""


_Certificates: TypeAlias = tuple[str | None, ClientCertificate | None]
"""What a context is made of: certificates trusted besides the system's, and the one to show."""


class _Making:
    """A context that is wanted.

    Attributes:
        task: Makes it.
        waiters: How many wait for it.
        begun: Whether it has had its turn: its thread cannot be stopped.
    """

    __slots__ = ("begun", "task", "waiters")

    def __init__(self) -> None:
        self.task: asyncio.Task[ssl.SSLContext]
        self.waiters = 0
        self.begun = False


async def hand_over(
    dialled: socket.socket,
    factory: Callable[[], asyncio.Protocol],
    tls: ssl.SSLContext | None = None,
    server_name: str | None = None,
) -> None:
    """Give a connected socket to the running loop, which closes it from then on.

    Args:
        dialled: From ``Connector.dial``; not to be used afterwards, also where this raises.
        factory: Makes the protocol.
        tls: Context to wrap the connection with; None: none.
        server_name: With *tls*: for SNI and the certificate.

    Raises:
        OSError: TLS failed (``ssl.SSLError``), or the connection has ended already.
    """
    loop = asyncio.get_running_loop()
    try:
        await loop.create_connection(factory, sock=dialled, ssl=tls, server_hostname=server_name)
    except BaseException:
        dialled.close()
        raise
    if not isinstance(loop, asyncio.BaseEventLoop):
        # uvloop closes the descriptor itself. Where the connection ended before this task went
        # on, its number stays in *dialled*, which would close it again when it is collected: a
        # file of the log, or another connection, may have the number by then.
        dialled.detach()


class Connector:
    """Opens connections to allowed addresses alone.

    Args:
        rule: Which addresses are allowed.
        resolver: Resolves names.
        tls: Context for ``https``; None: the system's trust store, names verified, TLS 1.2 and
            newer.
        nodes: Nodes of this server, which are dialled in place of its own socket; None: it has one
            machine, and the socket is dialled.
    """

    def __init__(
        self,
        rule: _addresses.AddressRule,
        resolver: Resolver,
        tls: ssl.SSLContext | None = None,
        nodes: OwnNodes | None = None,
    ) -> None:
        self._rule = rule
        self._nodes = nodes
        self._here = dataclasses.replace(rule, stays_here=True)
        self._resolver = resolver
        self._tls = tls
        self._contexts: dict[_Certificates, ssl.SSLContext] = {}
        self._making: dict[tuple[str, _Certificates], _Making] = {}
        self._makers = Places(CONTEXTS_MADE_MAX)

    def staying_here(self) -> "Connector":
        """Returns a connector for addresses of loopback alone, for a client that dials itself."""
        return Connector(self._here, self._resolver, self._tls)

    def endpoint(self, uri: str) -> Endpoint:
        """Returns the endpoint of an HTTP URI; see ``Endpoint``.

        Raises:
            TransportError: ``blocked-address``: the URI is unusable.
        """
        return _endpoint.parse(uri, protocols()["HTTP"].schemes)

    def endpoint_of(self, destination: Destination) -> Endpoint:
        """Returns the endpoint of *destination*, with its dialled address and certificates.

        Raises:
            TransportError: ``blocked-address``: its URI or ``dial`` is unusable.
        """
        dial = None
        if destination.dial is not None:
            dial = _endpoint.parse_dial(destination.dial, own=destination.own)
        schemes = protocols()[destination.protocol].schemes
        consent = destination.consent
        return _endpoint.parse(destination.uri, schemes)._replace(
            dial=dial,
            own=destination.own,
            ca_certs=destination.ca_certs,
            stays_here=destination.stays_here,
            client_certificate=destination.client_certificate,
            private_alone=consent is not None and consent.private_alone,
            tenant=destination.tenant,
        )

    async def open(self, endpoint: Endpoint, factory: Callable[[], asyncio.Protocol]) -> None:
        """Connect, with the protocol that *factory* makes.

        Has no overall deadline: the caller cancels.

        Raises:
            TransportError: ``dns``, ``blocked-address``, ``refused``, ``timeout``, ``tls``. The
                factory may have been called for ``tls``.
        """
        tls = await self.tls_context(endpoint) if endpoint.tls else None
        if self._nodes is not None and endpoint.own and endpoint.dialled[0].startswith("/"):
            # That path is one of the server's machine: another server may have it on this one.
            await self._nodes.open(factory)
            return
        dialled = await self.dial(endpoint)
        name = endpoint.host.rstrip(".") if tls else None  # for SNI and the certificate
        try:
            await hand_over(dialled, factory, tls, name)
        except OSError as error:  # ssl.SSLError and its certificate errors are among them
            reason = "tls" if tls else "refused"
            raise TransportError(reason, f"No connection to {endpoint.host}: {error}") from error

    async def dial(self, endpoint: Endpoint) -> socket.socket:
        """Returns a connected, non-blocking socket, for client libraries that add TLS themselves.

        For a TLS endpoint, wrap it with ``tls_context`` and the server name ``endpoint.host``,
        without a trailing dot.

        Raises:
            TransportError: ``dns``, ``blocked-address``, ``refused``, ``timeout``.
        """
        host, port = endpoint.dialled
        own, here = endpoint.own, endpoint.stays_here
        if own and host.startswith("/"):
            return self._dial_unix(host)
        found = await self.checked_addresses(host, port, own=own, stays_here=here)
        if endpoint.private_alone:
            _check_private(host, found)
        candidates = found[:ADDRESSES_TRIED_MAX]
        for address in candidates[:-1]:
            try:
                async with asyncio.timeout(DIAL_S_EACH):
                    return await self._dial_one(address, port, endpoint)
            except (TimeoutError, TransportError):
                continue  # the last failure is the one that is raised
        return await self._dial_one(candidates[-1], port, endpoint)

    def _dial_unix(self, path: str) -> socket.socket:
        """Connect to our own listener: only the server itself names a path (``parse_dial``)."""
        dialled = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            dialled.setblocking(False)
            dialled.connect(path)  # at once, or not at all: the queue of the socket is full
        except OSError as error:
            dialled.close()
            text = f"No connection to this server's own socket: {error.strerror or error}"
            raise TransportError("refused", text) from error
        return dialled

    async def checked_addresses(
        self, host: str, port: int | None = None, *, own: bool = False, stays_here: bool = False
    ) -> list[str]:
        """Returns the addresses of *host*, if all pass the rule.

        One refused address refuses all: a name with internal and external addresses is an attack
        or a mistake, and chance would decide which is dialled.

        Args:
            host: Name or address.
            port: Port to dial; None: any.
            own: Whether this server's own listener is dialled: any address passes.
            stays_here: Only addresses of loopback pass.

        Raises:
            TransportError: ``dns``, or ``blocked-address``.
        """
        literal = _literal(host)
        found = [literal] if literal else await self._resolver.resolve(host)
        if not found:
            raise TransportError("dns", f"{host} has no address")
        for address in found:
            self._check(host, address, port, own=own, stays_here=stays_here)
        return [str(_addresses.normal(address)) for address in found]

    async def _dial_one(self, address: str, port: int, endpoint: Endpoint) -> socket.socket:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        try:
            dialled = socket.socket(family, socket.SOCK_STREAM)
        except OSError as error:  # no descriptors left, or no IPv6 here
            raise TransportError("refused", f"No socket: {error.strerror}") from error
        try:
            dialled.setblocking(False)
            dialled.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BYTES)
            await asyncio.get_running_loop().sock_connect(dialled, (address, port))
            own, here = endpoint.own, endpoint.stays_here
            self._check(address, dialled.getpeername()[0], port, own=own, stays_here=here)
        except OSError as error:
            dialled.close()
            reason = "timeout" if isinstance(error, TimeoutError) else "refused"
            why = os.strerror(error.errno) if error.errno else str(error)
            text = f"No connection to {address} port {port}: {why}"
            raise TransportError(reason, text) from error
        except BaseException:
            dialled.close()
            raise
        return dialled

    def _check(
        self, host: str, address: str, port: int | None, *, own: bool, stays_here: bool
    ) -> None:
        rule = self._here if stays_here else self._rule
        refusal = None if own else rule.refusal(address, port, _of_this_machine)
        if refusal is not None:
            text = f"{host} must not be dialled: {refusal}"
            raise TransportError(BLOCKED, text, retryable=not self._rule.final(address))

    async def tls_context(self, endpoint: Endpoint) -> ssl.SSLContext:
        """Returns a TLS context for *endpoint* that verifies certificates and names.

        It trusts the certificates of *endpoint* besides the system's, and shows its client
        certificate to a far side that asks for one.

        Raises:
            TransportError: ``tls``: one of these cannot be used.
        """
        key = endpoint.ca_certs, endpoint.client_certificate
        if key == (None, None):
            if self._tls is None:
                self._tls = ssl.create_default_context()  # reads the trust store: when needed
            return self._tls
        return self._kept(key) or await self._made(endpoint, key)

    def _kept(self, key: _Certificates) -> ssl.SSLContext | None:
        context = self._contexts.pop(key, None)
        if context is not None:
            self._contexts[key] = context  # the last in the order, as the one used last
        return context

    async def _made(self, endpoint: Endpoint, key: _Certificates) -> ssl.SSLContext:
        asked = endpoint.tenant, key  # else it would wait for the turn of another tenant
        making = self._making.get(asked)
        if making is None:
            making = self._making[asked] = _Making()
            making.task = asyncio.create_task(self._make(making, endpoint, key))
            making.task.add_done_callback(_told)
        making.waiters += 1
        try:
            # Shielded: the timeout of one attempt must not end it for the others.
            return await asyncio.shield(making.task)
        finally:
            making.waiters -= 1
            if not making.waiters and not making.begun:
                del self._making[asked]
                making.task.cancel()

    async def _make(
        self, making: _Making, endpoint: Endpoint, key: _Certificates
    ) -> ssl.SSLContext:
        async with self._makers.one(endpoint.tenant, domain_of(endpoint.host)):
            making.begun = True
            try:
                context = self._kept(key)  # another tenant may have wanted the same
                if context is None:
                    context = await asyncio.to_thread(_context_of, *key)
                    self._keep(key, context)
            finally:
                del self._making[endpoint.tenant, key]
        return context

    def _keep(self, key: _Certificates, context: ssl.SSLContext) -> None:
        if len(self._contexts) >= CONTEXTS_MAX:
            del self._contexts[next(iter(self._contexts))]
        self._contexts[key] = context


def _told(made: asyncio.Task[ssl.SSLContext]) -> None:
    """Note that the error of *made* needs no log, where all who waited for it have gone."""
    if not made.cancelled():
        made.exception()


def _context_of(
    ca_certs: str | None, client_certificate: ClientCertificate | None
) -> ssl.SSLContext:
    """Make a context, in a thread."""
    context = ssl.create_default_context()
    try:
        if ca_certs is not None:
            context.load_verify_locations(cadata=ca_certs)
    except (ssl.SSLError, ValueError, TypeError) as error:  # empty; not ASCII
        raise TransportError("tls", f"The sink's CA certificates: {error}") from error
    if client_certificate is not None:
        _show(context, client_certificate)
    return context


def _show(context: ssl.SSLContext, client: ClientCertificate) -> None:
    """Have *context* show *client*.

    OpenSSL reads files alone: this one is in memory, and no disk sees the key.

    Raises:
        TransportError: ``tls``: the two cannot be used.
    """
    try:
        descriptor = os.memfd_create("client-certificate")
        with os.fdopen(descriptor, "wb") as file:
            file.write(f"{client.certificate}\n{client.key}\n".encode("ascii"))
            file.flush()
            context.load_cert_chain(f"/proc/self/fd/{descriptor}", password=_no_password)
    except (ssl.SSLError, OSError, ValueError) as error:
        raise TransportError("tls", f"The client certificate cannot be used: {error}") from error


def _no_password() -> str:
    raise ValueError("its key needs a password")  # else OpenSSL would ask the terminal


def _check_private(host: str, addresses: list[str]) -> None:
    """Refuse *host*, which was not asked for consent, if it is on the public internet by now."""
    for address in addresses:
        if not _addresses.is_private(address):
            text = f"{host} must not be dialled: {address} is public, and was not asked for consent"
            raise TransportError(BLOCKED, text)


def _of_this_machine(address: str) -> bool:
    """Whether *address* is one of this machine's, which alone can be bound."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((address, 0))
    except OSError:
        return False
    return True


def _literal(host: str) -> str | None:
    """Returns *host* as an address; None: it is a name.

    Accepts the old forms of IPv4 (``127.1``, ``0x7f.1``, ``2130706433``), as the system's resolver
    does, so that the checked address is the dialled one.
    """
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        pass
    try:
        return socket.inet_ntoa(socket.inet_aton(host))
    except OSError:
        return None
