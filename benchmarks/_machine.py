"""The machine that a result belongs to."""

import os
import platform
import re
import subprocess
import sys
import sysconfig
from importlib import metadata
from pathlib import Path

from distributary.spark import find_java


def describe():
    """Facts of the machine and of the programs that decide about speed."""
    cpu = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    )
    return {
        "cpu": cpu[1] if cpu else platform.processor(),
        "cores": os.cpu_count(),
        "memory_mib": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20,
        "kernel": platform.release(),
        "python": f"{sys.version.split()[0]} ({python_build()})",
        "java": find_java(os.environ).version,
        "pyspark": metadata.version("pyspark"),
        "distributary": metadata.version("distributary") if _installed() else "source tree",
        "commit": commit.stdout.strip(),
        "load_average_before": [round(value, 2) for value in os.getloadavg()],
    }


def python_build():
    """Whose interpreter it is and how it was built: it moves the figures by up to a fifth.

    Distributions do not always tell of a profile: Debian's has one, and names none.
    """
    found = sysconfig.get_config_vars()
    said = f"{found.get('CONFIG_ARGS')} {found.get('PY_CORE_CFLAGS')}"
    profile = "--enable-optimizations" in said or "-fprofile-use" in said
    shared = "libpython" in Path("/proc/self/maps").read_text()
    return ", ".join(
        [
            f"of {sys.base_prefix}",
            "optimized by a profile" if profile else "tells of no profile",
            "in a shared library" if shared else "in one program",
        ]
    )


def _installed():
    try:
        metadata.version("distributary")
    except metadata.PackageNotFoundError:
        return False
    return True
