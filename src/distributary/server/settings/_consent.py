"""Settings of the consent of sinks. Part of ``Settings``."""

from dataclasses import dataclass
from typing import Literal

from distributary.server.settings import _shapes as shapes
from distributary.server.settings._shapes import Reload, setting


@dataclass(frozen=True, kw_only=True)
class ConsentSettings:
    """Who is asked before the first delivery. Plain and picklable."""

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
