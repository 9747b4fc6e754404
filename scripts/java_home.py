"""Print the JAVA_HOME on which Spark starts here; exit code 1, with advice, if there is none.

Called by the Makefile. ``--shim DIR`` writes the shim there if the Java found needs one.
"""

import argparse
import os
import sys
from pathlib import Path

from distributary.core.errors import SettingsError
from distributary.spark import find_java, java_environment


def main() -> int:
    """Find, write the shim if asked, print; messages for people go to standard error."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shim", type=Path, help="folder for the shim; prints the home to export")
    shim_dir: Path | None = parser.parse_args().shim
    try:
        java = find_java(os.environ)
        home = java_environment(java, shim_dir)["JAVA_HOME"] if shim_dir else str(java.path)
    except SettingsError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"Java {java.version} ({java.origin}: {java.path})", file=sys.stderr)
    print(home)
    return 0


if __name__ == "__main__":
    sys.exit(main())
