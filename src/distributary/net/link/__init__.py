"""Connections to brokers: a session for each key, its window in flight, and what waits for it."""

from distributary.net.link._broker import BrokerTransport
from distributary.net.link._care import CAREFUL_S, Care
from distributary.net.link._session import Flight, Lost, Opener, Session

__all__ = ["CAREFUL_S", "BrokerTransport", "Care", "Flight", "Lost", "Opener", "Session"]
