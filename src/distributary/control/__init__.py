"""Desired state: the resources, their store, and the route changes that follow from them.

Called by ``api`` (operations, by way of ``Subscriptions``), ``pipeline`` and ``app`` (the
``Directory`` of targets). Hides the database, the order in which store and log are written, how
concurrent changes share a transaction and an append, and how a half-made change is rolled
forward. It needs one thing from its surroundings: a ``RouteAppender``.
"""

from distributary.control._credentials_keys import Keys
from distributary.control._credentials_rows import CredentialRows
from distributary.control._credentials_sealed import Sealer
from distributary.control._deliveries import Deliveries, ListedLetter, RouteState, Selection
from distributary.control._directory import Directory, Listed, ListedRoute, News
from distributary.control._expiry import Counts, Endings, Ends
from distributary.control._history import RouteChanges
from distributary.control._leader import Leader, RouteAppender
from distributary.control._refresh import Refresher, TokenEndpoint
from distributary.control._refresh_answer import TokenReply
from distributary.control._refresh_endpoint import HttpTokenEndpoint
from distributary.control._route_batch import StandingRoute
from distributary.control._route_changes import AppliedRoute, DropRoute, PutRoute, RouteChange
from distributary.control._route_settings import RouteEndpoint, RouteSettings
from distributary.control._schedule import Ending, Schedule
from distributary.control._store import CHANGES_KEPT, SUBSCRIPTIONS_MAX, Store
from distributary.control._stored import (
    ANY_TAG,
    NO_PRECONDITION,
    ChangePendingError,
    Page,
    Precondition,
    Replaced,
    StoredSubscription,
)
from distributary.control._subscriptions import PAGE_MAX, Subscriptions
from distributary.control._timers import TickAppender, Timers
from distributary.control._wiring import (
    PROTOCOLS_ABSENT,
    delivery_policy,
    route_policy,
    rules,
)

__all__ = [
    "ANY_TAG",
    "CHANGES_KEPT",
    "NO_PRECONDITION",
    "PAGE_MAX",
    "PROTOCOLS_ABSENT",
    "SUBSCRIPTIONS_MAX",
    "AppliedRoute",
    "ChangePendingError",
    "Counts",
    "CredentialRows",
    "Deliveries",
    "Directory",
    "DropRoute",
    "Ending",
    "Endings",
    "Ends",
    "HttpTokenEndpoint",
    "Keys",
    "Leader",
    "Listed",
    "ListedLetter",
    "ListedRoute",
    "News",
    "Page",
    "Precondition",
    "PutRoute",
    "Refresher",
    "Replaced",
    "RouteAppender",
    "RouteChange",
    "RouteChanges",
    "RouteEndpoint",
    "RouteSettings",
    "RouteState",
    "Schedule",
    "Sealer",
    "Selection",
    "StandingRoute",
    "Store",
    "StoredSubscription",
    "Subscriptions",
    "TickAppender",
    "Timers",
    "TokenEndpoint",
    "TokenReply",
    "delivery_policy",
    "route_policy",
    "rules",
]
