"""Nodes: several servers that share log and store, one of which leads.

Each node runs receivers. The one that holds the lease ``control`` also runs everything else, in a
child process; the others pass requests of its API on to it. Called by ``server.processes``. Hides:
the election, the table of nodes, how nodes prove to each other who they are, and the wire between
them.
"""

from distributary.core.postgres_nodes import LIVE_S
from distributary.server.nodes._election import (
    CONTROL,
    LATE_S,
    LATELY_S,
    PATIENCE_S,
    TAKE_S,
    Election,
    Mandate,
    stop_led,
)
from distributary.server.nodes._gateway import Gateway, Purpose, Routes
from distributary.server.nodes._keeper import NodeKeeper, NodePaths
from distributary.server.nodes._leader import Leader, LeaderFile
from distributary.server.nodes._rows import (
    MARGIN_S,
    SIGN_S,
    NodeRow,
    Nodes,
    NodeSign,
    NodeTakenError,
    Seen,
    live,
)
from distributary.server.nodes._told import Told
from distributary.server.nodes._wire import NODE, NodeDialler, NodeFiles
from distributary.server.nodes.proof import Authority, Proof, make_authority, make_proof

__all__ = [
    "CONTROL",
    "LATELY_S",
    "LATE_S",
    "LIVE_S",
    "MARGIN_S",
    "NODE",
    "PATIENCE_S",
    "SIGN_S",
    "TAKE_S",
    "Authority",
    "Election",
    "Gateway",
    "Leader",
    "LeaderFile",
    "Mandate",
    "NodeDialler",
    "NodeFiles",
    "NodeKeeper",
    "NodePaths",
    "NodeRow",
    "NodeSign",
    "NodeTakenError",
    "Nodes",
    "Proof",
    "Purpose",
    "Routes",
    "Seen",
    "Told",
    "live",
    "make_authority",
    "make_proof",
    "stop_led",
]
