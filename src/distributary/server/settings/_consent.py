"""Settings of the consent of sinks, and of the tokens of deliveries. Part of ``Settings``."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from distributary.server.settings import _shapes as shapes
from distributary.server.settings._shapes import Reload, setting


@dataclass(frozen=True, kw_only=True)
class ConsentSettings:
    """What passes between this server and its sinks beside events. Plain and picklable."""

    consent: Literal["auto", "never", "public", "always"] = setting(
        shapes.one_of("auto", "never", "public", "always"),
        "auto",
        "Which HTTP sinks must consent before the first delivery (CloudEvents web hooks): none,"
        " those on public addresses, or all; auto: public where auth is required, else never.",
        reload=Reload.SINKS,
    )
    webhook_origin: str | None = setting(
        shapes.host_name(),
        None,
        "Name that sinks consent to; by default the host of public_url, else this machine's name.",
        reload=Reload.SINKS,
    )
    issuer_key_file: Path | None = setting(  # noqa: RUF009 - dataclasses.field, renamed
        shapes.path("the path of a file that its owner alone may read"),
        None,
        "Private keys, in PEM, of the tokens that deliveries of Triggers and messaging"
        " Subscriptions show to destinations with an audience: the first signs, all are published."
        " Without it they show none.",
    )
    issuer_url: str | None = setting(
        shapes.base_url("a URL such as https://events.example.com, without a path"),
        None,
        "URL of this server as the issuer of these tokens, https unless it is of loopback; by"
        " default public_url. Receivers fetch the public keys there.",
    )
