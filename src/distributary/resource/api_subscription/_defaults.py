"""Defaults of a subscription that are applied and shown when it is realized (decision 21)."""

from typing import Final

METHOD: Final = "POST"
RETRY: Final = 10
BACKOFF_POLICY: Final = "exponential"
BACKOFF_DELAY: Final = "PT0.2S"
BACKOFF_MAX: Final = "PT5M"
TIMEOUT: Final = "PT30S"
QOS: Final = 1
RETAIN: Final = False
SETTLEMENT_MODE: Final = "unsettled"
CLIENT_ID: Final = "distributary"
ACKS: Final = "all"
