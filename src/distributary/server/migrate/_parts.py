"""What becomes of each part of a data directory that moves.

A test compares this with ``DataDir``: whoever adds a file decides here what becomes of it.
"""

from types import MappingProxyType
from typing import Final, Literal

Fate = Literal["moved", "made anew", "left"]
"""``moved``: what it holds is in the topic or the database afterwards. ``made anew``: nodes make
their own, and nothing is lost. ``left``: it stays where it is, for people."""

FATES: Final = MappingProxyType[str, Fate](
    {
        "access": "made anew",
        "addresses": "made anew",
        "append_socket": "made anew",
        "archive_lock": "made anew",
        "archive_scratch": "made anew",
        "archived": "left",
        "asked_keys": "made anew",
        "audit": "left",
        "audit_refused": "left",
        "bell": "made anew",
        "control_settings": "made anew",
        "control_socket": "made anew",
        "delivery_db": "moved",
        "driver_page": "made anew",
        "failing": "made anew",
        "forward_socket": "made anew",
        "history": "left",
        "history_outbox": "left",
        "history_scratch": "made anew",
        "index": "made anew",
        "index_folder": "made anew",
        "ingest_page": "made anew",
        "internal_key": "made anew",
        "journal": "moved",
        "key_uses": "made anew",
        "leader": "made anew",
        "live": "made anew",
        "lock": "made anew",
        "log": "moved",
        "migrated": "made anew",
        "node_counts": "made anew",
        "node_chain": "made anew",
        "node_page": "made anew",
        "node_socket": "made anew",
        "nodes_authority": "made anew",
        "outcome": "moved",
        "own_socket": "made anew",
        "owner_lock": "made anew",
        "publishers": "moved",
        "publishers_folder": "moved",
        "quota_db": "moved",
        "readers": "left",
        "recall_lock": "made anew",
        "recall_requests": "made anew",
        "recall_failed": "made anew",
        "recall_scratch": "made anew",
        "recalled": "made anew",
        "recalled_folder": "made anew",
        "receivers_live": "made anew",
        "restoring": "made anew",
        "retention_hold": "made anew",
        "routes": "made anew",
        "run": "made anew",
        "seen": "made anew",
        "sick": "made anew",
        "sources_page": "made anew",
        "spark": "made anew",
        "state_db": "moved",
        "status_page": "made anew",
        "tallies": "moved",
        "tenant_counts": "made anew",
        "worker_sockets": "made anew",
    }
)
"""By the attribute of ``DataDir``. The key of credentials (``key_file``) is the operator's: every
node is given the same one."""
