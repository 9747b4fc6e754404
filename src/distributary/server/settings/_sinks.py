"""Settings of where events may be sent, and with which credentials. Part of ``Settings``."""

# ruff: noqa: RUF009 - ``setting`` is dataclasses.field under another name

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from distributary.server.settings import _shapes as shapes
from distributary.server.settings._shapes import Reload, setting


@dataclass(frozen=True, kw_only=True)
class SinkSettings:
    """Which sinks are allowed, and the keys that seal their credentials. Plain and picklable."""

    allow_sinks: tuple[str, ...] = setting(
        shapes.SettingShape(
            "networks such as 10.0.0.0/8, separated by commas", shapes.parse_networks
        ),
        (),
        "Networks that events may be sent to although their addresses are private.",
        reload=Reload.SINKS,
    )
    private_sinks: str = setting(
        shapes.one_of("auto", "allow", "deny"),
        "auto",
        "Whether events may be sent to loopback and private addresses; auto: while the server"
        " listens on loopback only, without public_url, listen_unix, trusted_proxies and auth ="
        " required.",
        reload=Reload.SINKS,
    )
    nat64_prefixes: tuple[str, ...] = setting(
        shapes.SettingShape(
            "IPv6 prefixes such as 2001:db8:64::/96, separated by commas", shapes.parse_nat64
        ),
        (),
        "Prefixes behind which this network's NAT64 reaches IPv4; the embedded addresses are"
        " checked too.",
        reload=Reload.SINKS,
    )
    own_sinks: int = setting(
        shapes.whole(0, 7),
        0,
        "How often an event may return through subscriptions whose sink is this server; 0 refuses"
        " such sinks.",
        reload=Reload.SINKS,
    )
    protocols: tuple[str, ...] = setting(
        shapes.SettingShape("names such as HTTP,MQTT5", shapes.parse_protocols),
        (),
        "Delivery protocols that subscriptions may use; otherwise all, but KAFKA where"
        " private_sinks is deny.",
        reload=Reload.SINKS,
    )
    cleartext_credentials: bool = setting(
        shapes.switch(),
        False,
        "Whether credentials of subscriptions may go to other machines by schemes without TLS.",
        reload=Reload.SINKS,
    )
    error_data: Literal["none", "private-off", "all"] = setting(
        shapes.one_of("none", "private-off", "all"),
        "private-off",
        "Which sinks' error responses a dead letter quotes: none, those of public addresses, or"
        " all.",
        reload=Reload.SINKS,
    )
    credential_key_file: Path | None = setting(
        shapes.path("the path of a file that its owner alone may read"),
        None,
        "Keys that seal sink credentials; otherwise credentials.key in the data folder, made at"
        " need. The environment variable DISTRIBUTARY_CREDENTIAL_KEY, where set, counts instead.",
    )
    credential_key_command: str | None = setting(
        shapes.command("a command with its arguments, such as pass show distributary"),
        None,
        "Command that prints these keys, in place of a file: run once at the start, without a"
        " shell.",
    )
    credential_key_fd: int | None = setting(
        shapes.whole(3, 65535),
        None,
        "File descriptor from which these keys are read once at the start, in place of a file.",
    )
