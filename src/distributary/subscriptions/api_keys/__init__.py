"""API keys: made, listed and revoked by administrators, within what these may do themselves.

Callers: ``subscriptions.http`` for the paths, ``server`` for the wiring. Hides the rows, and who
sees which key.
"""

from distributary.subscriptions.api_keys._proposal import (
    GRANT,
    KEY_ID,
    KEY_NAME,
    PROPOSAL,
)
from distributary.subscriptions.api_keys._service import Announce, ApiKeys, MadeKey
from distributary.subscriptions.api_keys._store import ApiKeyStore, StoredKey

__all__ = [
    "GRANT",
    "KEY_ID",
    "KEY_NAME",
    "PROPOSAL",
    "Announce",
    "ApiKeyStore",
    "ApiKeys",
    "MadeKey",
    "StoredKey",
]
