"""The start banner: URLs and paths, for people. Not printed where log lines are JSON."""

from pathlib import Path

from rich.console import Console
from rich.panel import Panel
from rich.table import Table

from distributary import __version__


def print_banner(
    base: str, data_dir: Path, history: str, *, amqp_url: str | None, health_url: str | None
) -> None:
    """Print the server's URLs and paths to standard error."""
    table = Table.grid(padding=(0, 2))
    for name, value in (
        ("publish", f"POST {base}/events"),
        ("subscribe", f"POST {base}/subscriptions"),
        *([("by AMQP", f"{amqp_url}/subscriptions")] if amqp_url else []),
        ("kubectl", f"distributary kubeconfig --server {base} > kubeconfig.yaml"),
        ("look", f"{base}/readyz   {base}/metrics   {base}/docs"),
        *([("probes", f"{health_url}/healthz   {health_url}/readyz")] if health_url else []),
        ("data", str(data_dir)),
        *([("history", history)] if history else []),
    ):
        table.add_row(f"[dim]{name}[/]", value)
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    if console.is_terminal:
        console.print(Panel(table, title=f"distributary {__version__}", expand=False))
    else:
        console.print(table)
