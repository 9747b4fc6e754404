"""The start banner: URLs and paths, for people. Not printed where log lines are JSON."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from distributary import __version__
from distributary.server.processes.supervision.listeners import Listeners


def say_serving(
    log: Any, places: tuple[Listeners, Path, str], counts: Mapping[str, int], *, banner: bool
) -> None:
    """Tell that the server serves: a line of the log, and before it the banner where *banner*.

    Args:
        log: Takes the line.
        places: Where it listens, its data directory, and where history lies.
        counts: More fields of the line.
        banner: Whether people watch.
    """
    listeners, data_dir, history = places
    amqp_url, health_url = listeners.amqp_url, listeners.health_url
    if banner:
        _print_banner(listeners.url, data_dir, history, (amqp_url, health_url))
    urls = {"amqp": amqp_url, "health": health_url}
    log.info("serving", address=listeners.url, data_dir=str(data_dir), **counts, **urls)


def _print_banner(
    base: str, data_dir: Path, history: str, others: tuple[str | None, str | None]
) -> None:
    """Print the server's URLs and paths to standard error."""
    amqp_url, health_url = others
    lines = (
        ("publish", f"POST {base}/events"),
        ("subscribe", f"POST {base}/subscriptions"),
        *([("by AMQP", f"{amqp_url}/subscriptions")] if amqp_url else []),
        ("kubectl", f"distributary kubeconfig --server {base} > kubeconfig.yaml"),
        ("console", f"{base}/console"),
        ("look", f"{base}/readyz   {base}/metrics   {base}/docs"),
        *([("probes", f"{health_url}/healthz   {health_url}/readyz")] if health_url else []),
        ("data", str(data_dir)),
        *([("history", history)] if history else []),
    )
    # Without a frame, and wrapped by the terminal alone: a command is copied whole.
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    if console.is_terminal:
        console.print(f"[bold]distributary {__version__}[/]")
    for name, value in lines:
        console.print(f"[dim]{name:<9}[/]  {escape(value)}")
