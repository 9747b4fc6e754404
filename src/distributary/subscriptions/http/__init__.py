"""The HTTP API beside publishing: subscriptions, descriptions, health.

Called by ``server``, which runs it on uvicorn behind the receiver: the receiver owns the port and
passes on every path that is not for publishing. Hides HTTP: status codes, header fields, problem
details, conditional requests, pages of a list. ``service`` carries out the operations.
"""

from distributary.subscriptions.http._app import create_app
from distributary.subscriptions.http._issuer import KEYS_PATH, IssuerDocuments
from distributary.subscriptions.http._openapi import build_openapi
from distributary.subscriptions.http._schemas import BEYOND_SCHEMAS
from distributary.subscriptions.http._status import short_of, status_of
from distributary.subscriptions.http.cluster import (
    CLUSTER_PATH,
    Cluster,
    ClusterReport,
    LeaseShown,
    NodeShown,
    OwnerShown,
    PartitionShown,
    create_cluster_app,
)
