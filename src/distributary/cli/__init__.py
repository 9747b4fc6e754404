"""The command line: ``distributary serve``, ``send``, ``subscribe``, ``listen`` and others.

All commands but ``serve`` talk to a server over HTTP and nothing else; ``serve`` hands its
settings to ``app``.

Callers: people; ``main`` is the console script. Hides: typer and rich.
"""

from distributary.cli._commands import main

__all__ = ["main"]
