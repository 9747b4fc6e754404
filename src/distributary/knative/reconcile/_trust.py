"""Trust bundles: ConfigMaps with CA certificates that are trusted for every https destination.

Called by ``_pass`` for its plans. Hides which ConfigMaps are bundles. An unreadable one is logged
and skipped, so other deliveries do not depend on it.

Source:
    knative/eventing 1.22, ``pkg/eventingtls``: ConfigMaps with the label in the system namespace.
"""

import ssl
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

import structlog

from distributary.knative.apiserver.machinery import Key
from distributary.knative.apiserver.objects import Stored
from distributary.knative.kinds import CONFIG_MAP

NAMESPACE: Final = "knative-eventing"
LABEL: Final = "networking.knative.dev/trust-bundle"

BUNDLES: Final = Key(CONFIG_MAP.resource, NAMESPACE, "")
"""Key for all bundles together: objects that depend on it are reconciled when one changes."""

BUNDLES_CHARS_MAX: Final = 64 * 1024
"""Characters of all bundles together: as many as a destination may name itself. Each route that
uses TLS stores them; the system's certificates are trusted without being named."""

_READ_MAX: Final = 64
"""Texts in the cache of ``_readable``."""

_log = structlog.get_logger(__name__)


def concerns(key: Key) -> bool:
    """Whether *key* may name a bundle."""
    return (key.resource, key.namespace) == (BUNDLES.resource, BUNDLES.namespace)


class Bundles:
    """The certificates in trust bundles, cached until a ConfigMap changes.

    Every plan with an https destination asks for them; a skipped bundle is logged once.
    """

    def __init__(self) -> None:
        self._versions: list[tuple[Key, int]] = []
        self._found = ""

    def of(self, config_maps: Sequence[Stored]) -> str:
        """Certificates of the bundles among *config_maps*, as PEM; empty: none.

        Args:
            config_maps: Of the namespace, by name.
        """
        versions = [(stored.key, stored.version) for stored in config_maps]
        if versions != self._versions:
            self._versions = versions
            self._found = _certificates(config_maps)
        return self._found


def _certificates(config_maps: Sequence[Stored]) -> str:
    kept: list[str] = []
    room = BUNDLES_CHARS_MAX
    for stored in config_maps:
        if not _labelled(stored.content):
            continue
        data = stored.content.get("data")
        for name, text in sorted(data.items()) if isinstance(data, dict) else ():
            fault = "it holds no certificates in PEM" if not _readable(text) else ""
            if not fault and len(text) > room:
                fault = f"all bundles together have more than {BUNDLES_CHARS_MAX} characters"
            if fault:
                _log.warning("trust-bundle-left-out", object=stored.key, member=name, reason=fault)
                continue
            room -= len(text)
            kept.append(text if text.endswith("\n") else f"{text}\n")
    return "".join(kept)


def _labelled(content: dict[str, Any]) -> bool:
    labels = content["metadata"].get("labels")
    return isinstance(labels, dict) and labels.get(LABEL) == "true"


@lru_cache(_READ_MAX)
def _readable(text: object) -> bool:
    """Whether the connector can load *text*."""
    if not isinstance(text, str):
        return False
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=text)
    except (ssl.SSLError, TypeError, ValueError):  # no ASCII; empty
        return False
    return True
