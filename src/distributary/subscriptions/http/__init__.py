"""The HTTP API beside publishing: subscriptions, descriptions, health. Parse, call, render.

Called by ``server``, which runs it on uvicorn behind the receiver: the receiver owns the port and
passes every path that is not for publishing. Hides HTTP: status codes, header fields, problem
details, conditional requests, pages of a list. Decides nothing: ``service`` does.
"""

from distributary.subscriptions.http._app import HealthReport, create_app
from distributary.subscriptions.http._openapi import build_openapi
from distributary.subscriptions.http._schemas import BEYOND_SCHEMAS
