"""Connections to brokers: a session for each key, its window in flight, and what waits for it."""

from distributary.net.link._broker import BrokerTransport
from distributary.net.link._session import BrokerSession, Flight, Lost, Opener
from distributary.net.link._slow_start import SLOW_START_S, SlowStart
