"""Fetch the brokers that come from Maven Central into the user's cache, before tests want them.

    python scripts/fetch_brokers.py

Called by ``.ci/run``. What cannot be fetched is said, and its tests are NOT RUN; exit code 1.
"""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "tests"))

from kit.servers import ServerNotHadError, artemis, kafka


def main() -> int:
    """Fetch both; the exit code says whether they are there."""
    missing = 0
    for name, fetch in (("Kafka", kafka.fetch), ("Artemis", artemis.fetch)):
        try:
            print(f"{name}: {fetch()}")
        except ServerNotHadError as error:
            print(f"{name} cannot be had: {error}", file=sys.stderr)
            missing += 1
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
