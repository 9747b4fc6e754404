"""The command line: ``distributary serve``, ``send``, ``subscribe``, ``listen`` and others.

``serve`` hands its settings to ``server``, and ``filter`` evaluates by itself; all other commands
talk to a server over HTTP and nothing else.

Callers: people; ``main`` is the console script. Hides: typer and rich.
"""

from distributary.cli._commands import main
