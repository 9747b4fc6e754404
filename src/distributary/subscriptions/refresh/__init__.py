"""Refreshes access tokens of sinks before they expire."""

from distributary.subscriptions.refresh._answer import TokenReply
from distributary.subscriptions.refresh._endpoint import HttpTokenEndpoint
from distributary.subscriptions.refresh._refresher import Refresher
