"""This server as an issuer of tokens: its settings, checked, and the documents it publishes."""

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import structlog

from distributary.core.errors import SettingsError
from distributary.partitions import IssuingKeys
from distributary.resource import is_loopback
from distributary.server.settings import Settings
from distributary.subscriptions.http import KEYS_PATH, IssuerDocuments


@dataclass(frozen=True, slots=True)
class Issuing:
    """What the owners sign with, and what receivers of events verify it with.

    Attributes:
        url: The issuer; empty: there is no key.
        key_file: Path of the private keys; empty: there are none.
        keys: The keys themselves; None: there are none.
    """

    url: str = ""
    key_file: str = ""
    keys: IssuingKeys | None = None

    def documents(self) -> IssuerDocuments | None:
        """Returns what is published now; None: there is no key.

        The keys are read again where the file has changed, so that new ones are known before they
        sign.
        """
        if self.keys is None:
            return None
        from distributary.access.issuing import (  # noqa: PLC0415 - 50 ms of PyJWT
            issuer_document,
            keys_document,
        )

        keys = self.keys.read()
        return IssuerDocuments(
            issuer_document(self.url, self.url + KEYS_PATH, keys), keys_document(keys)
        )


def issuing_of(settings: Settings, public_url: str) -> Issuing:
    """Returns the issuer that *settings* make.

    Args:
        settings: The settings.
        public_url: Where others reach this server.

    Raises:
        SettingsError: The keys cannot be used, or the URL cannot be an issuer.
    """
    if settings.issuer_key_file is None:
        return Issuing()
    url = settings.issuer_url or public_url
    fault = _fault(url)
    if fault is not None:
        raise SettingsError(fault)
    path: Path = settings.issuer_key_file.absolute()
    log = structlog.get_logger()
    keys = IssuingKeys(path, lambda reason: log.warning("issuer-keys-unusable", reason=reason))
    keys.read()
    return Issuing(url, str(path), keys)


def _fault(url: str) -> str | None:
    """Why *url* cannot be an issuer; None: it can."""
    parts = urlsplit(url)
    if parts.scheme == "https" or is_loopback(parts.hostname or ""):
        return None
    return (
        f"issuer_url: an issuer is reached by https, and {url} is not: receivers trust the keys"
        " that they fetch there; set issuer_url, or public_url"
    )
