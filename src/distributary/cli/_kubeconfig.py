"""``distributary kubeconfig``: prints a kubeconfig for a server.

Callers: ``_commands``.
"""

import base64
import json
from pathlib import Path
from typing import Annotated

import typer

from distributary.cli import _console
from distributary.cli._http import parse_address
from distributary.cli._options import DEFAULT_URL, Namespace, checked_namespace
from distributary.cli._server import read_token
from distributary.cli._tls import ClientTls, chosen
from distributary.core.named_files import SOURCE_HELP
from distributary.core.tenant import DEFAULT_NAMESPACE

# Values are JSON, which is YAML.
_KUBECONFIG = """\
apiVersion: v1
kind: Config
clusters:
- name: distributary
  cluster:
    server: {server}
{authority}contexts:
- name: distributary
  context:
    cluster: distributary
    namespace: {namespace}
    user: distributary
current-context: distributary
users:
- name: distributary
  user: {user}
"""


def kubeconfig(
    *,
    server: Annotated[
        str,
        typer.Option(
            "--server", "--url", envvar="DISTRIBUTARY_URL", metavar="URL", help="The server."
        ),
    ] = DEFAULT_URL,
    namespace: Namespace = DEFAULT_NAMESPACE,
    token_from: Annotated[
        str | None,
        typer.Option(
            "--token-from",
            metavar=SOURCE_HELP,
            help="Where the API key or token is; absent: without one.",
        ),
    ] = None,
) -> None:
    r"""Print a kubeconfig for kubectl and other clients of Kubernetes.

    It names the server, a namespace and a user. With a token from a file, it names the file, which
    kubectl reads again and again. With one from the environment, it holds the token: keep it from
    others. The options --ca-file, --client-cert-file and --client-key-file, before the command, put
    a certificate authority and a client certificate in it: the authority itself, and the paths of
    certificate and key.

    For example:

      distributary kubeconfig > kubeconfig.yaml

      kubectl --kubeconfig kubeconfig.yaml get brokers,triggers

      distributary kubeconfig --server https://events.example.com \
        --namespace shop --token-from file:shop.key > config

      distributary --ca-file ca.pem kubeconfig --server https://localhost:8080
    """
    secure = parse_address(server).secure
    tls = chosen()
    user = _token(token_from)
    if secure:
        tls.context()  # whatever cannot be used is told now, and not by kubectl
        user |= _certificate(tls)
    elif user:
        _console.errors().print(
            "[yellow]warning:[/] kubectl shows no key and no token over plain HTTP: serve TLS"
        )
    print(
        _KUBECONFIG.format(
            server=json.dumps(server.rstrip("/")),
            authority=_authority(tls) if secure else "",
            namespace=json.dumps(checked_namespace(namespace)),
            user=json.dumps(user),
        ),
        end="",
    )


def _authority(tls: ClientTls) -> str:
    if tls.ca is None:
        return ""
    encoded = base64.b64encode(tls.ca.read_bytes()).decode("ascii")
    return f"    certificate-authority-data: {encoded}\n"


def _certificate(tls: ClientTls) -> dict[str, str]:
    """By path: a private key is not copied, and a renewed certificate holds."""
    if tls.certificate is None:
        return {}
    key = tls.key or tls.certificate
    return {
        "client-certificate": str(tls.certificate.absolute()),
        "client-key": str(key.absolute()),
    }


def _token(token_from: str | None) -> dict[str, str]:
    """A token in a file by its path, likewise.

    Raises:
        SettingsError: There is no token at *token_from*.
    """
    if token_from is None:
        return {}
    token = read_token(token_from)
    assert token is not None
    kind, _, path = token_from.partition(":")
    if kind == "file":
        return {"tokenFile": str(Path(path).expanduser().absolute())}
    return {"token": token.text}
