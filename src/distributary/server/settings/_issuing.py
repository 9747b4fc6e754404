"""Settings of the tokens that deliveries show. Part of ``Settings``."""

from dataclasses import dataclass
from pathlib import Path

from distributary.server.settings import _shapes as shapes
from distributary.server.settings._shapes import setting


@dataclass(frozen=True, kw_only=True)
class IssuingSettings:
    """Who signs the tokens of deliveries. Plain and picklable."""

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
