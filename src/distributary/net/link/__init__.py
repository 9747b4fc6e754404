"""Shared broker connections: reconnecting sessions with an in-flight window and a queue."""

from distributary.net.link._broker import BrokerTransport
from distributary.net.link._session import BrokerSession, Flight, Lost
from distributary.net.link._slow_start import SLOW_START_S, SlowStart
