"""Settings of TLS, and of proxies in front of the server. Part of ``Settings``."""

# ruff: noqa: RUF009 - ``setting`` is dataclasses.field under another name

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from distributary.server.settings import _shapes as shapes
from distributary.server.settings._shapes import Reload, setting

_PEM = shapes.path("the path of a file in PEM form")


@dataclass(frozen=True, kw_only=True)
class NetworkSettings:
    """Settings of every listener's TLS, and of proxies. Plain and picklable."""

    tls_cert_file: Path | None = setting(
        _PEM,
        None,
        "The server's certificate, then its intermediate ones: all ports use TLS, 1.2 or newer."
        " Read again when the file changes. Needs tls_key_file.",
        reload=Reload.TLS,
    )
    tls_key_file: Path | None = setting(
        _PEM,
        None,
        "The certificate's private key, without a password.",
        reload=Reload.TLS,
    )
    tls_client_ca_file: Path | None = setting(
        _PEM,
        None,
        "The authorities that sign clients' certificates. Needs tls_client_certs.",
        reload=Reload.TLS,
    )
    tls_client_certs: Literal["off", "optional", "required"] = setting(
        shapes.one_of("off", "optional", "required"),
        "off",
        "Whether clients are asked for a certificate; required: a client without one is"
        " disconnected. The health port asks for none.",
        reload=Reload.TLS,
    )
    listen_unix: Path | None = setting(
        shapes.path("the path of a socket"),
        None,
        "Unix socket at which the server takes plain HTTP besides its port: for a proxy on the same"
        " machine. Every user who may enter its folder can connect.",
    )
    trusted_proxies: tuple[str, ...] = setting(
        shapes.SettingShape(
            "networks such as 10.0.0.0/8, or unix, separated by commas", shapes.parse_proxies
        ),
        (),
        "Where proxies connect from: what they say of the client's address, scheme and host"
        " (X-Forwarded-For, -Proto, -Host) is believed; unix is listen_unix.",
        reload=Reload.AT_ONCE,
    )
