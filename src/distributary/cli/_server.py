"""The server that a command uses: where it is, and the key or token that shows who asks.

Callers: every command that uses a server. Hides: the places that they are read from.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from rich.markup import escape

from distributary.cli import _console
from distributary.cli._http import Address, Token, parse_address
from distributary.cli._secrets import read_secret
from distributary.core.errors import SettingsError
from distributary.resource import is_loopback

TOKEN_VARIABLE: Final = "DISTRIBUTARY_TOKEN"  # noqa: S105 - name of a variable
_TOKEN: Final = re.compile(r"[!-~]+")


def server_at(url: str, token_from: str | None, environ: Mapping[str, str] = os.environ) -> Address:
    """The server at *url*, and who asks it.

    Warns on standard error if the key or token would cross a network in the clear.

    Args:
        url: URL of a server.
        token_from: ``env:NAME`` or ``file:PATH``; None: ``DISTRIBUTARY_TOKEN``, which may be
            missing.
        environ: The environment.

    Raises:
        SettingsError: *url* is none, or no key or token can be read.
    """
    address = parse_address(url)
    token = read_token(token_from, environ)
    if token is None:
        return address
    if not address.secure and not _stays_here(address.host):
        _console.errors().print(
            f"[yellow]warning:[/] the key goes to {escape(address.place)} unencrypted: use https"
        )
    return address._replace(token=token)


def read_token(token_from: str | None, environ: Mapping[str, str] = os.environ) -> Token | None:
    """The key or token at *token_from*, see ``server_at``; None: there is none.

    Raises:
        SettingsError: It cannot be read, or is none.
    """
    if token_from is None and not environ.get(TOKEN_VARIABLE):
        return None
    try:
        text = read_secret("--token-from", token_from or f"env:{TOKEN_VARIABLE}", environ).strip()
    except ValueError as error:
        raise SettingsError(str(error)) from error
    if not _TOKEN.fullmatch(text):
        raise SettingsError(f"{token_from or TOKEN_VARIABLE} holds no API key and no token")
    return Token(text)


def server_of(data_dir: Path) -> Address:
    """The server that runs on *data_dir*, by its private socket: whoever runs it may do all.

    Raises:
        SettingsError: The path is too long for a socket.
    """
    # Few commands reach the server this way, and the settings take a tenth of their start.
    from distributary.server.settings.private_socket import (  # noqa: PLC0415 - see above
        private_socket_of,
    )

    return parse_address("http://localhost")._replace(socket=private_socket_of(data_dir))


def _stays_here(host: str) -> bool:
    """Whether what is sent to *host* leaves this machine for sure not."""
    return host == "localhost" or is_loopback(host)
