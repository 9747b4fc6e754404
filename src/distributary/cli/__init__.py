"""The command line: ``distributary serve``, ``send``, ``subscribe``, ``listen`` and others.

``serve`` passes its settings to ``server``. Commands that ask a running server use its HTTP API
alone. These ask none, and read or write files themselves: ``config``, ``filter``, ``history``,
``archive``, ``archive-classes``, ``backup``, ``restore``, ``migrate``, and ``key create --print``.

Callers: people; ``main`` is the console script. Hides: typer and rich.
"""

from distributary.cli._commands import main
