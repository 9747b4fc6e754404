"""Timers and ends: what becomes of subscriptions by itself."""

from distributary.subscriptions.timers._expiry import Counts, Endings, Ends
from distributary.subscriptions.timers._timers import SubscriptionTimers, TimerEventAppender
