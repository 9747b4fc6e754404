"""What the exporters of all signals share. Imports the SDK: imported where something is opened."""

import logging
import os
import socket
import threading
from collections.abc import Callable
from typing import Any, Final

import requests
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from distributary import __version__
from distributary.net.otlp._settings import OtlpSettings

QUEUE_MAX: Final = 2_048
"""Items of a signal that wait, those under way included: the default of OpenTelemetry, some
megabytes. ``OTEL_BSP_MAX_QUEUE_SIZE`` and ``OTEL_BLRP_MAX_QUEUE_SIZE`` change it, up to 65,536."""

_QUEUE_CAP: Final = 65_536
_BATCH_MAX: Final = 512

_SERVICE: Final = "distributary"

_logger = logging.getLogger("opentelemetry")


def begin(settings: OtlpSettings, signal: str) -> dict[str, Any]:
    """Returns the arguments of the exporter of *signal*.

    Raises:
        SettingsError: The file of headers cannot be used.
    """
    # What the SDK would log is counted by ``SignalMeter``, which writes one line for it.
    _logger.addHandler(logging.NullHandler())
    _logger.propagate = False
    _logger.setLevel(logging.CRITICAL)
    session = requests.Session()
    session.max_redirects = 0  # headers are for the endpoint that was named
    # Nor do variables of the environment decide: neither who relays, nor what .netrc would add.
    session.trust_env = False
    return {"endpoint": settings.url(signal), "headers": settings.headers(), "session": session}


def resource(role: str) -> Resource:
    """Returns what all items say of their process, whose *role* is as in log lines.

    ``OTEL_SERVICE_NAME`` and ``OTEL_RESOURCE_ATTRIBUTES`` add to it, and win.
    """
    ours = {
        "service.version": __version__,
        "service.instance.id": f"{socket.gethostname()}-{role}-{os.getpid()}",
        "distributary.role": role,
    }
    theirs = dict(Resource.create().attributes)
    if str(theirs["service.name"]).startswith("unknown_service"):
        theirs["service.name"] = _SERVICE
    return Resource.create({**ours, **theirs})


def scope() -> InstrumentationScope:
    """Returns who recorded an item."""
    return InstrumentationScope("distributary", __version__)


def queue_max(variable: str) -> int:
    """Returns the most items that wait, by *variable* of the environment."""
    text = os.environ.get(variable, "")
    return min(max(int(text), 1), _QUEUE_CAP) if text.isdecimal() else QUEUE_MAX


def batch_max(queued_max: int) -> int:
    """Returns the most items of one request."""
    return min(_BATCH_MAX, queued_max)


def within(seconds: float, work: Callable[[], object]) -> bool:
    """Runs *work* in a thread of its own; False: it takes longer, and nobody waits for it."""
    thread = threading.Thread(target=work, name="otlp-flush", daemon=True)
    thread.start()
    thread.join(seconds)
    return not thread.is_alive()
