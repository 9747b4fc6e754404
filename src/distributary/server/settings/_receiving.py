"""Settings of the ports and of what is received. Part of ``Settings``."""

# ruff: noqa: RUF009 - ``setting`` is dataclasses.field under another name

from dataclasses import dataclass
from pathlib import Path

from distributary.server.settings import _shapes as shapes
from distributary.server.settings._shapes import Reload, setting

EVENT_BYTES_CAP = 15 * shapes.MIB
"""Upper limit of ``event_bytes_max``. A record of the log holds 16 MiB, which includes the
attributes from a request's headers."""


@dataclass(frozen=True, kw_only=True)
class ReceivingSettings:
    """Where the server listens, and how much it takes at once. Plain and picklable."""

    data_dir: Path = setting(
        shapes.path("the path of a folder"),
        Path("distributary-data"),
        "Folder of the log and the store; one server at a time uses it.",
    )
    host: str = setting(
        shapes.text("an address or host name", r"[^\s/\0]+"),
        "127.0.0.1",
        "Address to listen on. While it is loopback, private sinks are allowed (private_sinks);"
        " any other address asks clients who they are (auth).",
    )
    auth: str | None = setting(
        shapes.one_of("required", "off"),
        None,
        "Whether clients must show who they are; off: every client that reaches the server may do"
        " everything. By default off while the server listens on loopback only, else required.",
    )
    no_auth: bool = setting(shapes.switch(), False, "Older way to say auth = off.")
    port: int = setting(shapes.whole(0, 65535), 8080, "TCP port; 0 takes a free one and prints it.")
    health_port: int | None = setting(
        shapes.whole(0, 65535),
        None,
        "TCP port, at the same address, for /healthz and /readyz alone, which responds whatever"
        " hangs; 0 takes a free one and prints it. Without it only the main port serves them.",
    )
    amqp_port: int | None = setting(
        shapes.whole(0, 65535),
        None,
        "TCP port of the Subscriptions API over AMQP 1.0; 0 takes a free one and prints it; off by"
        " default. Needs the extra distributary[amqp].",
    )
    public_url: str | None = setting(
        shapes.base_url("a URL such as https://events.example.com, without a path"),
        None,
        "URL at which others reach this server, shown as the address of Brokers and Channels."
        " Derived from the listening address by default; https with TLS.",
    )
    allowed_hosts: tuple[str, ...] = setting(
        shapes.SettingShape(
            "host names such as events.shop.svc, without ports, separated by commas",
            shapes.parse_host_names,
        ),
        (),
        "Names by which clients reach this server, besides every address, localhost, this machine's"
        " name and that of the public URL; a request under another name is answered 421.",
        reload=Reload.AT_ONCE,
    )
    partitions: int | None = setting(
        shapes.whole(1, 64),
        None,
        "Partitions of a new log; an existing log keeps the count it has, or gets more where nodes"
        " share it. By default one for each core, from 2 to 8.",
        reload=Reload.NODES,
    )
    receivers: int | None = setting(
        shapes.whole(1, 64),
        None,
        "Processes that accept requests and append to the log, each to its part of the partitions;"
        " no more than there are partitions. By default one for each four cores, at least 1.",
    )
    event_bytes_max: int = setting(
        shapes.size(shapes.KIB, EVENT_BYTES_CAP),
        shapes.MIB,
        "Largest request body accepted; a larger one is answered 413.",
        reload=Reload.AT_ONCE,
    )
    batch_events_max: int = setting(
        shapes.whole(1, 1000),
        1000,
        "Most events in one batch; a larger batch is answered 400.",
        reload=Reload.AT_ONCE,
    )
    connections_max: int = setting(
        shapes.whole(1, 100_000),
        2000,
        "Most connections of clients at one time; for one more the longest idle one is closed.",
        reload=Reload.AT_ONCE,
    )
    connections_per_address_max: int = setting(
        shapes.whole(0, 100_000),
        200,
        "Most connections from one address that is not loopback; 0 sets no limit.",
        reload=Reload.AT_ONCE,
    )
