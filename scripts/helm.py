"""Find the Helm that renders and lints the chart, and build one where there is none.

    python scripts/helm.py          # say which there is
    python scripts/helm.py build    # one of this machine, else built with Go

What is built is kept in the user's cache; a Helm that is installed stays as it is. Called by
``.ci/run`` before anything is installed, so it needs nothing but Python;
``tests/supply/test_chart.py`` calls ``found``.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

PLACE: Final = (
    Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    / "distributary"
    / "helm"
    / "helm"
)
"""Where what is built is kept."""

GO_VERSION: Final = "v4.3.1"
"""Of ``helm.sh/helm/v4``; needs Go 1.26."""

KUBERNETES_VERSION: Final = "v0.37.2"
"""Of the modules that Helm has in common with the kubectl of ``kubectl.py``: compiled once."""

ANSWER_S_MAX: Final = 20.0
"""Longest wait for what it says of itself."""

BUILD_S_MAX: Final = 600.0
"""Longest build: 220 s of processor time, download aside; 540 s were seen where eight shared two
cores."""

_GO_MOD: Final = f"""\
module helm

go 1.26

require (
	helm.sh/helm/v4 {GO_VERSION}
	k8s.io/kubectl {KUBERNETES_VERSION}
)

tool helm.sh/helm/v4/cmd/helm
"""


def found() -> Path | None:
    """A Helm 3 or 4 of this machine, else the one that was built."""
    installed = shutil.which("helm")
    places = [Path(installed)] if installed else []
    return next((each for each in (*places, PLACE) if version(each)), None)


def version(helm: Path) -> str:
    """What it says of itself: ``v4.3.1``; empty: it does not run, or is older than 3."""
    if not helm.exists():
        return ""
    command = [str(helm), "version", "--template", "{{.Version}}"]
    try:
        said = subprocess.run(
            command, capture_output=True, check=True, text=True, timeout=ANSWER_S_MAX
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return ""
    return said if re.match(r"v?[34]\.", said) else ""


def build() -> None:
    """Build Helm from the Go modules that it is published as.

    Raises:
        OSError, subprocess.SubprocessError: No Go, one that is too old, or no module proxy.
    """
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "go.mod").write_text(_GO_MOD)
        command = ["go", "build", "-mod=mod", "-ldflags=-s -w", "-o", "built"]
        subprocess.run(
            [*command, "helm.sh/helm/v4/cmd/helm"],
            cwd=folder,
            env=os.environ | {"GOTOOLCHAIN": "local", "GOFLAGS": "-buildvcs=false"},
            stdout=sys.stderr,
            check=True,
            timeout=BUILD_S_MAX,
        )
        PLACE.parent.mkdir(parents=True, exist_ok=True)
        beside = PLACE.with_name("helm.new")
        shutil.move(Path(folder) / "built", beside)
        beside.replace(PLACE)


def main() -> int:
    """Build it if asked for and not here; say what there is. 1: it cannot be had."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", nargs="?", choices=["build"], help="build it where there is none")
    try:
        if parser.parse_args().build and found() is None:
            build()
    except (OSError, subprocess.SubprocessError) as error:
        print(f"helm cannot be had: {error}", file=sys.stderr)
        return 1
    helm = found()
    if helm is not None:
        print(f"helm: {version(helm)} {helm}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
