"""Makes ``tests/kit`` a place to import from: import this module before it."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "tests"))
