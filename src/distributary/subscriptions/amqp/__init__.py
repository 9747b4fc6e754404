"""The AMQP 1.0 binding of the Subscriptions API (3.4): request and response messages.

Called by ``server``, where the setting ``amqp_port`` is set. Hides links, credit and messages.
``service`` carries out the operations, for this and for HTTP.

Importing this needs no proton; an ``AmqpServer`` does (``amqp.AVAILABLE``).
"""

from distributary.subscriptions.amqp._conversation import (
    ANSWER_LINKS_MAX,
    REQUEST_BYTES_MAX,
    REQUEST_CREDIT,
    REQUEST_LINKS_MAX,
)
from distributary.subscriptions.amqp._crowd import CONNECTIONS_MAX, UNOPENED_MAX
from distributary.subscriptions.amqp._sender import permission_of
from distributary.subscriptions.amqp._server import OPEN_S_MAX, AmqpServer
