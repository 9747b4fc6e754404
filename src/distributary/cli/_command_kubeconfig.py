"""``distributary kubeconfig``: what kubectl needs to know of a server.

Callers: ``_commands``.
"""

import json
from typing import Annotated
from urllib.parse import urlsplit

import typer

from distributary.cli._options import DEFAULT_URL
from distributary.core.errors import SettingsError

__all__ = ["kubeconfig"]

_KUBECONFIG = """\
apiVersion: v1
kind: Config
clusters:
- name: distributary
  cluster:
    server: {server}
contexts:
- name: distributary
  context:
    cluster: distributary
    namespace: default
    user: distributary
current-context: distributary
users:
- name: distributary
  user: {{}}
"""


def kubeconfig(
    *,
    server: Annotated[
        str, typer.Option("--server", envvar="DISTRIBUTARY_URL", metavar="URL", help="The server.")
    ] = DEFAULT_URL,
) -> None:
    """Print a kubeconfig for kubectl and other clients of Kubernetes.

    It names the server, the namespace default and a user without credentials.

    For example:

      distributary kubeconfig > kubeconfig.yaml

      kubectl --kubeconfig kubeconfig.yaml get brokers,triggers

      distributary kubeconfig --server https://events.example.com > config
    """
    print(_KUBECONFIG.format(server=_quoted(server)), end="")


def _quoted(server: str) -> str:
    """*server* as a YAML string, which every JSON string is.

    Raises:
        SettingsError: It is no URL of a server.
    """
    try:
        parts = urlsplit(server)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no number
        usable = False
    if not usable or parts.query or parts.fragment or parts.username is not None:
        message = f"--server: expected a URL such as {DEFAULT_URL}, without a user or a query"
        raise SettingsError(f"{message}; got {server}")
    return json.dumps(server.rstrip("/"))
