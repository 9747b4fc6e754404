"""``distributary kubeconfig``: prints a kubeconfig for a server.

Callers: ``_commands``.
"""

import json
from typing import Annotated

import typer

from distributary.cli._http import parse_address
from distributary.cli._options import DEFAULT_URL

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
    parse_address(server)
    # As a YAML string: every JSON string is one.
    print(_KUBECONFIG.format(server=json.dumps(server.rstrip("/"))), end="")
