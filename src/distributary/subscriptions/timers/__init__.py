"""Timers that make events, and expiry of subscriptions by time or count."""

from distributary.subscriptions.timers._expiry import Endings
from distributary.subscriptions.timers._timers import SubscriptionTimers, TimerEventAppender
