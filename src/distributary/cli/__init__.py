"""The command line: ``distributary serve``, ``send``, ``subscribe``, ``listen`` and others.

``serve`` passes its settings to ``server``, and ``filter`` needs no server; all other commands
use a server over HTTP and nothing else.

Callers: people; ``main`` is the console script. Hides: typer and rich.
"""

from distributary.cli._commands import main
