"""Writes the Python shim for Spark's workers, which drops Spark's zipped PySpark from the path.

Spark puts its zip of PySpark first on the workers' path. A zip keeps no compiled modules, so every
worker compiles what it imports: 0.6 s of CPU each, and the query needs half a dozen one after the
other before it is ready. PySpark is installed beside us anyway.

Called by ``driver`` before Spark starts. Imports no pyspark.
"""

import shlex
import sys
from pathlib import Path
from typing import Final

from distributary.core.files import write_atomically

_SHIM: Final = """\
#!/bin/sh
# Runs Python without Spark's zipped PySpark on the path: the installed one is compiled.
kept=
IFS=:
for entry in $PYTHONPATH; do
    case "$entry" in
        *.zip|*.jar|'') ;;
        *) kept="$kept${{kept:+:}}$entry" ;;
    esac
done
export PYTHONPATH="$kept"
exec {python} "$@"
"""


def write_shim(folder: Path) -> Path:
    """Write the shim into *folder* and return its path; set ``PYSPARK_PYTHON`` to it."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "python"
    shim = _SHIM.format(python=shlex.quote(sys.executable))
    write_atomically(path, shim.encode(), mode=0o700, contended=True)
    return path
