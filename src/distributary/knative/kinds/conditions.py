"""Types of conditions, used as ``conditions.READY``; docs/reference lists those of each kind.

Conditions with a severity (``ConfigurationResolved``, ``DeliveriesSucceeding``,
``DeliveriesEnabled``) do not affect ``Ready``.
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
AUTHENTICATION_ENABLED: Final = "AuthenticationEnabled"
EVENT_POLICIES_READY: Final = "EventPoliciesReady"
SUBJECTS_RESOLVED: Final = "SubjectsResolved"
SECRETS_RESOLVED: Final = "SecretsResolved"
DELIVERIES_SUCCEEDING: Final = "DeliveriesSucceeding"
DELIVERIES_ENABLED: Final = "DeliveriesEnabled"
