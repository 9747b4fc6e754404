"""Find the kubectls that the tests use, and fetch those that are not here.

    python scripts/kubectl.py             # say which there are
    python scripts/kubectl.py debian      # Debian's: downloaded and unpacked, not installed
    python scripts/kubectl.py current     # a newer one: of this machine, else built with Go

What is fetched is kept in the user's cache; a kubectl that is installed stays as it is. Called by
``.ci/run`` before anything is installed, so it needs nothing but Python;
``tests/e2e/kubernetes`` calls ``found``.
"""

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

FOLDER: Final = (
    Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "distributary" / "kubectl"
)
"""Where what is fetched is kept."""

NAMES: Final = ("debian", "current")

CURRENT_MINOR_MIN: Final = 27
"""From 1.27 on, kubectl reads OpenAPI v3 and leaves validation to the server."""

GO_VERSION: Final = "v0.37.2"
"""Of ``k8s.io/kubectl``; needs Go 1.26."""

COMMAND_S_MAX: Final = 120.0
"""Longest wait for a package manager."""

BUILD_S_MAX: Final = 180.0
"""Longest build: 98 s were seen on two busy cores, download included."""

_AS_OURSELVES: Final = ("-o", "APT::Sandbox::User=root")
"""Its own user cannot write to our temporary folder, which it says each time."""

_MAIN_GO: Final = """\
package main

import (
	"os"

	"k8s.io/component-base/cli"
	"k8s.io/kubectl/pkg/cmd"
)

func main() { os.Exit(cli.Run(cmd.NewDefaultKubectlCommand())) }
"""

_GO_MOD: Final = f"""\
module kubectl

go 1.26

require (
	k8s.io/component-base {GO_VERSION}
	k8s.io/kubectl {GO_VERSION}
)
"""


def found() -> dict[str, Path]:
    """The kubectls that are here, by name."""
    debian, current = _debian_path(), _current_path()
    places = {"debian": debian if debian.exists() else None, "current": current}
    return {name: place for name, place in places.items() if place is not None}


def version(kubectl: Path) -> str:
    """What it says of itself: ``v1.20.2``; empty: it does not run."""
    command = [str(kubectl), "version", "--client", "--output=json"]
    with contextlib.suppress(OSError, subprocess.SubprocessError, ValueError, KeyError):
        done = subprocess.run(command, capture_output=True, check=True, timeout=COMMAND_S_MAX)
        return str(json.loads(done.stdout)["clientVersion"]["gitVersion"])
    return ""


def fetch_debian() -> None:
    """Fetch the distribution's.

    Raises:
        OSError, subprocess.SubprocessError: As of ``unpack``.
    """
    unpack("kubernetes-client", "usr/bin/kubectl", _debian_path())


def unpack(package: str, program: str, place: Path) -> None:
    """Download a package of the distribution and put one program of it at *place*.

    Raises:
        OSError, subprocess.SubprocessError: It cannot be had; what the command said stands on
            standard error.
    """
    with tempfile.TemporaryDirectory() as folder:
        download = ["apt-get", *_AS_OURSELVES, "download", "-qq", package]
        if subprocess.run(download, cwd=folder, check=False, timeout=COMMAND_S_MAX).returncode:
            as_root = [] if os.geteuid() == 0 else ["sudo", "-n"]
            _run([*as_root, "apt-get", "update", "-qq"], folder, COMMAND_S_MAX)
            _run(download, folder, COMMAND_S_MAX)
        (archive,) = Path(folder).glob("*.deb")
        _run(["dpkg-deb", "--extract", str(archive), "unpacked"], folder, COMMAND_S_MAX)
        keep(Path(folder) / "unpacked" / program, place)


def build_current() -> None:
    """Build kubectl from the Go modules that it is published as.

    Raises:
        OSError, subprocess.SubprocessError: No Go, one that is too old, or no module proxy.
    """
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "main.go").write_text(_MAIN_GO)
        (Path(folder) / "go.mod").write_text(_GO_MOD)
        build = ["go", "build", "-mod=mod", "-ldflags=-s -w", "-o", "kubectl", "."]
        _run(build, folder, BUILD_S_MAX, GOTOOLCHAIN="local", GOFLAGS="-buildvcs=false")
        keep(Path(folder) / "kubectl", FOLDER / "current" / "kubectl")


def main() -> int:
    """Fetch what is asked for and not here yet; say what there is. 1: it cannot be had."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", nargs="?", choices=NAMES, help="which one to fetch")
    wanted: str | None = parser.parse_args().name
    try:
        if wanted is not None and wanted not in found():
            (fetch_debian if wanted == "debian" else build_current)()
    except (OSError, subprocess.SubprocessError) as error:
        print(f"kubectl ({wanted}) cannot be had: {error}", file=sys.stderr)
        return 1
    for name, place in found().items():
        print(f"kubectl ({name}): {version(place)} {place}")
    return 0


def _debian_path() -> Path:
    return FOLDER / "debian" / "kubectl"


def _current_path() -> Path | None:
    """One that is new enough: installed, built, or of a Debian that has a newer one."""
    installed = shutil.which("kubectl")
    places = [Path(installed)] if installed else []
    places += [FOLDER / "current" / "kubectl", _debian_path()]
    return next((place for place in places if _minor(place) >= CURRENT_MINOR_MIN), None)


def _minor(kubectl: Path) -> int:
    """The second part of its version; 0: it does not run."""
    parts = version(kubectl).split(".") if kubectl.exists() else []
    return int(parts[1]) if len(parts) > 1 and parts[1].isdigit() else 0


def _run(command: list[str], folder: str, timeout_s: float, **environ: str) -> None:
    """One command to its end; all that it says goes to standard error."""
    subprocess.run(
        command,
        cwd=folder,
        env=os.environ | environ,
        stdout=sys.stderr,
        check=True,
        timeout=timeout_s,
    )


def keep(program: Path, place: Path) -> None:
    """Move *program* to its place at once, so that nobody finds half of it."""
    place.parent.mkdir(parents=True, exist_ok=True)
    beside = place.with_name(f"{place.name}.new")
    shutil.move(program, beside)
    beside.replace(place)


if __name__ == "__main__":
    sys.exit(main())
