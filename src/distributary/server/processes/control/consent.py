"""Which sinks are asked for consent, and as whom: derived from the settings."""

import socket
from urllib.parse import urlsplit

from distributary.resource import ConsentMode, ConsentRule
from distributary.server.processes.base.ground import auth_required
from distributary.server.settings import Settings, is_host_name


def consent_of(settings: Settings, partitions: int) -> ConsentRule:
    """Returns the rule that *settings* make, for a log with so many *partitions*."""
    mode: ConsentMode
    if settings.consent == "auto":  # who has tenants is not to be their tool against others
        mode = "public" if auth_required(settings) else "never"
    else:
        mode = settings.consent
    public = urlsplit(settings.public_url or "").hostname
    name = settings.webhook_origin or public or socket.gethostname().lower()
    # A machine may have any name; what no header takes must not stop the server.
    origin = name if is_host_name(name) else "localhost"
    return ConsentRule(mode, origin, settings.public_url, partitions)
