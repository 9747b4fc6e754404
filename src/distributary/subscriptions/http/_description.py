"""The service description at ``GET /``: the discovery of 3.2.5 (decision 4, discovery)."""

from typing import Any, Final

from distributary import __version__
from distributary.core import filter as filter_room
from distributary.core.deliver.credential import CREDENTIAL_TYPES
from distributary.core.protocol import protocols
from distributary.datadir.seen import SeenNames
from distributary.resource import RESOURCE_BYTES_MAX, published
from distributary.subscriptions.resource import (
    CONFIG_KEYS,
    SHORT_DEAD_LETTER,
    TYPES_MAX,
    settings_schema,
)
from distributary.subscriptions.service import PAGE_MAX
from distributary.subscriptions.store.store import SUBSCRIPTIONS_MAX

_PROTOCOLS: Final = {
    name: {
        "sinkschemes": list(each.schemes),
        "settings": published(settings_schema(name, realized=False, dead_letter=SHORT_DEAD_LETTER)),
    }
    for name, each in protocols().items()
    if each.absent is None
}

_LINKS: Final = {
    "publish": "/events",
    "subscriptions": "/subscriptions",
    "openapi": "/openapi.json",
    "docs": "/docs",
    "console": "/console",
    "health": "/healthz",
    "readiness": "/readyz",
    "metrics": "/metrics",
    "cluster": "/cluster",
}

_LIMITS: Final = {
    "subscriptions": SUBSCRIPTIONS_MAX,
    "subscriptionbytes": RESOURCE_BYTES_MAX,
    "page": PAGE_MAX,
    "types": TYPES_MAX,
    "filterdepth": filter_room.DEPTH_MAX,
    "filternodes": filter_room.NODES_MAX,
}


def describe(seen: SeenNames) -> dict[str, Any]:
    """The service description, a JSON object, with the event types and sources *seen*."""
    return {
        "name": "distributary",
        "version": __version__,
        "description": "CloudEvents subscription manager and event router",
        "specification": "CloudEvents Subscriptions API 0.1-wip",
        "links": _LINKS,
        "operations": ["create", "retrieve", "query", "update", "delete"],
        "protocols": _PROTOCOLS,
        "dialects": list(filter_room.DIALECTS),
        "subscriptionconfig": published(CONFIG_KEYS),
        "credentialtypes": list(CREDENTIAL_TYPES),
        "eventtypes": sorted(seen.types),
        "eventtypes_truncated": seen.types_truncated,
        "eventsources": sorted(seen.sources),
        "eventsources_truncated": seen.sources_truncated,
        "limits": _LIMITS,
    }
