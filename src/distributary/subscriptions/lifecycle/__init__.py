"""Lifecycle events: what becomes of subscriptions, told as CloudEvents.

Callers: the control process. Hides: types, data, and the publisher of what the store has noted.
"""

from distributary.subscriptions.lifecycle._events import DATA_SCHEMA, TRANSITIONS, event_of, type_of
from distributary.subscriptions.lifecycle._heard import heard
from distributary.subscriptions.lifecycle._publisher import EventAppender, LifecyclePublisher

__all__ = [
    "DATA_SCHEMA",
    "TRANSITIONS",
    "EventAppender",
    "LifecyclePublisher",
    "event_of",
    "heard",
    "type_of",
]
