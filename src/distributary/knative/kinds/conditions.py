"""Types of conditions, read as ``conditions.READY``; docs/reference says which kind has which.

What has a severity (``ConfigurationResolved``, ``DeliveriesSucceeding``) does not count for
``Ready``.
"""

from typing import Final

READY: Final = "Ready"
ADDRESSABLE: Final = "Addressable"
BROKER_READY: Final = "BrokerReady"
CHANNEL_READY: Final = "ChannelReady"
CONFIGURATION_RESOLVED: Final = "ConfigurationResolved"
DEAD_LETTER_SINK_RESOLVED: Final = "DeadLetterSinkResolved"
SUBSCRIBER_RESOLVED: Final = "SubscriberResolved"
REFERENCES_RESOLVED: Final = "ReferencesResolved"
DEPENDENCY_READY: Final = "DependencyReady"
ROUTE_READY: Final = "RouteReady"
ADDED_TO_CHANNEL: Final = "AddedToChannel"
DELIVERIES_SUCCEEDING: Final = "DeliveriesSucceeding"
