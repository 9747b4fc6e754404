"""``python -m distributary.cli``: the same as ``distributary``."""

from distributary.cli import main

main()
