"""The AMQP 1.0 binding of the Subscriptions API (3.4): messages that ask, messages that answer.

Called by ``server``, where the setting ``amqp_port`` asks for it. Hides links, credit and messages.
Decides nothing: ``service`` stands behind this and behind HTTP alike.

Importing this needs no proton; an ``AmqpServer`` does (``amqp.AVAILABLE``).
"""

from distributary.subscriptions.amqp._conversation import (
    ADDRESS,
    ANSWER_LINKS_MAX,
    REQUEST_BYTES_MAX,
    REQUEST_CREDIT,
    REQUEST_LINKS_MAX,
)
from distributary.subscriptions.amqp._messages import ANSWER_BYTES_MAX
from distributary.subscriptions.amqp._server import (
    CONNECTIONS_MAX,
    GOODBYE_S_MAX,
    IDLE_S_MAX,
    OPEN_S_MAX,
    AmqpServer,
)
