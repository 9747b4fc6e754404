"""TLS of the client commands: whom they trust, and the certificate that they show.

Callers: ``_commands`` (the options), ``_http``, ``_kubeconfig``. Hides ``ssl``.
"""

import ssl
from contextvars import ContextVar
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from distributary.core.errors import SettingsError

CaFile = Annotated[
    Path | None,
    typer.Option(
        envvar="DISTRIBUTARY_CA_FILE",
        metavar="FILE",
        help="Authorities that sign the server's certificate, in PEM; otherwise the system's.",
    ),
]
ClientCertFile = Annotated[
    Path | None,
    typer.Option(
        envvar="DISTRIBUTARY_CLIENT_CERT_FILE",
        metavar="FILE",
        help="Certificate that shows who you are, in PEM.",
    ),
]
ClientKeyFile = Annotated[
    Path | None,
    typer.Option(
        envvar="DISTRIBUTARY_CLIENT_KEY_FILE",
        metavar="FILE",
        help="Its private key, in PEM; otherwise it is in the certificate's file.",
    ),
]


class ClientTls(NamedTuple):
    """Files that the user named.

    Attributes:
        ca: Authorities of the server; None: the system's.
        certificate: The user's certificate; None: none is shown.
        key: Its key; None: in the same file.
    """

    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None

    def context(self) -> ssl.SSLContext:
        """Make the context of a connection: certificates and names are verified.

        Raises:
            SettingsError: A file is unusable.
        """
        context = _trusting(self.ca)
        if self.certificate is not None:
            try:
                context.load_cert_chain(self.certificate, self.key, password=_no_password)
            except (OSError, ValueError) as error:
                reason = error.strerror if isinstance(error, OSError) else "it needs a password"
                raise SettingsError(
                    f"--client-cert-file {self.certificate}: no usable certificate and key in PEM"
                    f" form ({reason or error})"
                ) from error
        elif self.key is not None:
            raise SettingsError("--client-key-file needs --client-cert-file")
        return context


def _trusting(ca: Path | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca)
    except OSError as error:  # ``ssl.SSLError`` is one
        text = f"--ca-file {ca}: no certificates in PEM form ({error.strerror or error})"
        raise SettingsError(text) from error


def _no_password() -> str:
    raise ValueError


_NOTHING = ClientTls()
_CHOSEN: ContextVar[ClientTls] = ContextVar("client_tls", default=_NOTHING)


def choose(tls: ClientTls) -> None:
    """Use *tls* for every connection of this run: the options before the command."""
    _CHOSEN.set(tls)


def chosen() -> ClientTls:
    """Returns what ``choose`` was given last."""
    return _CHOSEN.get()
