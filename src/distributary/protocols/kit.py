"""The public API for packages that add a delivery protocol: every name they need, re-exported.

For other packages; the folders beside import the same names where they are defined. The guide is
``docs/how-to/add-a-protocol.md``.
"""

from distributary.core.clock import Clock
from distributary.core.deliver import Destination, Done, Transport
from distributary.core.deliver.broker_settings import BrokerSettings, SinkSettings
from distributary.core.deliver.credential import Credential
from distributary.core.errors import EventError, TransportError
from distributary.core.event import Event, json_format
from distributary.core.policy import Acknowledgement, AcknowledgementRule, Answer
from distributary.core.policy.acknowledgements import dead_lettered, delivered, retried
from distributary.core.protocol import Check, Protocol, Reading, Scheme, SettingFlag
from distributary.core.source import Consumer, Message, Settlement, SourceSpec
from distributary.net import Connector
from distributary.net.link import BrokerSession, BrokerTransport, Flight, Lost
from distributary.resource import Faults, Reach, Schema, bounded_map

__all__ = [
    "Acknowledgement",
    "AcknowledgementRule",
    "Answer",
    "BrokerSession",
    "BrokerSettings",
    "BrokerTransport",
    "Check",
    "Clock",
    "Connector",
    "Consumer",
    "Credential",
    "Destination",
    "Done",
    "Event",
    "EventError",
    "Faults",
    "Flight",
    "Lost",
    "Message",
    "Protocol",
    "Reach",
    "Reading",
    "Schema",
    "Scheme",
    "SettingFlag",
    "Settlement",
    "SinkSettings",
    "SourceSpec",
    "Transport",
    "TransportError",
    "bounded_map",
    "dead_lettered",
    "delivered",
    "json_format",
    "retried",
]
