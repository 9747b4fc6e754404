"""``distributary subscribe``: creates a subscription, or replaces one.

Callers: ``_commands``. Hides: the requests.
"""

from typing import Any

from rich.markup import escape

from distributary.cli import _console
from distributary.cli._api import (
    CREATED,
    PRECONDITION_FAILED,
    call,
    checked,
    in_namespace,
    path_of,
    print_json,
)
from distributary.cli._options import with_options
from distributary.cli._server import server_at
from distributary.cli._subscribe_flags import FLAGS, body_from, body_of
from distributary.core.errors import SettingsError


def _subscribe(**said: Any) -> None:
    server = server_at(said["url"], said["token_from"])
    file, id_, replace = said["file"], said["id_"], said["replace"]
    namespace = said["namespace"]
    try:
        body = body_of(said) if file is None else body_from(file, said)
    except ValueError as error:
        raise SettingsError(str(error)) from error
    id_ = body.pop("id", None) if id_ is None else id_
    if replace and id_ is None:
        raise SettingsError("--replace: say which one, with --id TEXT or the id in the file")
    if id_ is None:
        response = call(server, "POST", in_namespace(namespace, "/subscriptions"), body)
    else:
        # The server checks whether the id exists, so no other client can come in between.
        unless_there = () if replace else (("if-none-match", "*"),)
        response = call(server, "PUT", path_of(id_, namespace), body, unless_there)
    shown = _console.fits_one_line(id_ or "")
    if response.status == PRECONDITION_FAILED and not replace:
        _console.fail(
            f"there is a subscription {shown} already; nothing was changed",
            "Replace it as a whole with --replace, or look at it with:"
            f" distributary subscriptions get {shown}",
            _console.FAILED,
        )
    realized = checked(response)
    shown = _console.fits_one_line(realized["id"])
    done = "created" if response.status == CREATED else "replaced"
    _console.errors().print(f"{done} {escape(shown)}")
    print_json(realized)


_HELP = r"""Create a subscription and print it as the server keeps it.

Without filters every event matches. From the answer on, every accepted event is evaluated. An
id that is taken is refused; with --replace, the subscription that has it is replaced whole.

For example:

  distributary subscribe --sink http://127.0.0.1:9000

  distributary subscribe --sink http://127.0.0.1:9000 \
    --type com.example.order --prefix subject=eu/

  distributary subscribe --sink https://example.com/hook --id orders \
    --retry 3 --dead-letter-sink http://127.0.0.1:9001 \
    --filter '{"not": {"exact": {"source": "/test"}}}'

  distributary subscriptions get orders > orders.json
  distributary subscribe --file orders.json --replace

  distributary subscribe --sink http://127.0.0.1:9000 \
    --start earliest --max-events 100

  distributary subscribe --sink http://127.0.0.1:9000 \
    --interval 1m --data '{"wake": true}'

  distributary subscribe --sink https://example.com/hook \
    --credential-type PLAIN --identifier me --secret-from env:HOOK_PASSWORD

  distributary subscribe --protocol MQTT5 --sink mqtts://broker.example.com \
    --topic orders --setting qos=2 \
    --setting 'userproperties={"tenant": "blue"}'

  distributary subscribe --protocol KAFKA \
    --sink kafka://k1:9092,k2:9092/orders \
    --setting partitionkeyextractor=partitionkey
"""


subscribe = with_options(
    _subscribe, ((flag.name, flag.annotation, flag.default) for flag in FLAGS), _HELP
)
