"""``distributary import``: options and help. ``_import`` does the work.

Callers: ``_commands``.
"""

from typing import Annotated

import typer

from distributary.cli import _http, _import
from distributary.cli._options import DEFAULT_URL, Url

__all__ = ["import_"]


def import_(
    files: Annotated[list[str], typer.Argument(metavar="FILE", hidden=True)],
    *,
    url: Url = DEFAULT_URL,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check everything at the server; write nothing.")
    ] = False,
    replace: Annotated[
        bool, typer.Option("--replace", help="Take over fields that somebody else has set here.")
    ] = False,
) -> None:
    """Take over Brokers, Triggers, Channels and Subscriptions from a Kubernetes cluster.

    FILE holds YAML or JSON; - is standard input.

    Reads what kubectl get -o yaml prints, leaves out what belongs to the old cluster
    (status, versions, finalizers, owners), and says of every object whether it was taken,
    changed, left or refused. A second run changes nothing.

    For example:

      kubectl get brokers,triggers,channels,subscriptions -A -o yaml > all.yaml

      distributary import --dry-run all.yaml

      distributary import all.yaml
    """
    address = _http.parse_address(url)
    raise typer.Exit(_import.run(address, files, dry_run=dry_run, replace=replace))
