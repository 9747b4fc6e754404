"""The machine that a result belongs to."""

import os
import platform
import re
import subprocess
import sys
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
        "python": sys.version.split()[0],
        "java": find_java(os.environ).version,
        "pyspark": metadata.version("pyspark"),
        "distributary": metadata.version("distributary") if _installed() else "source tree",
        "commit": commit.stdout.strip(),
        "load_average_before": [round(value, 2) for value in os.getloadavg()],
    }


def _installed():
    try:
        metadata.version("distributary")
    except metadata.PackageNotFoundError:
        return False
    return True
