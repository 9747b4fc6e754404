"""A delivery protocol of another package: ``examples/files-protocol``, as an installer adds it."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import msgspec
import pytest

from kit.running_server import RunningServer, clean_environ, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.slow]

EXAMPLE = Path(__file__).parents[2] / "examples" / "files-protocol"


def _installed(folder: Path) -> dict[str, str]:
    """An environment in which the example is installed: its code, and its entry points."""
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    metadata = folder / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    lines = []
    for group, entries in project["entry-points"].items():
        lines += [f"[{group}]", *(f"{name} = {value}" for name, value in entries.items())]
    (metadata / "entry_points.txt").write_text("\n".join(lines) + "\n")
    environ = clean_environ()
    places = [str(folder), str(EXAMPLE), environ.get("PYTHONPATH", "")]
    environ["PYTHONPATH"] = os.pathsep.join(filter(None, places))
    return environ


def _broken(site: Path) -> None:
    """Install a package there that cannot be imported."""
    (site / "broken_protocol.py").write_text("raise RuntimeError('no client library')\n")
    metadata = site / "broken-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    entry = "[distributary.protocols]\nbroken = broken_protocol:PROTOCOLS\n"
    (metadata / "entry_points.txt").write_text(entry)


def test_a_package_of_somebody_else_adds_a_protocol(tmp_path: Path) -> None:
    """Subscribe, deliver, settings, flags, description: without a line changed here.

    A second package that cannot be imported is told of, and all goes on without it.
    """
    folder = tmp_path / "files"
    folder.mkdir()
    environ = _installed(tmp_path / "site") | {"FILES_FOLDER": str(folder)}

    def cli(*words: str) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, "-m", "distributary.cli", *words]
        return subprocess.run(command, env=environ, capture_output=True, text=True, check=False)

    _broken(tmp_path / "site")
    told = cli("version")
    assert told.returncode == 0
    assert told.stdout
    assert told.stderr == (
        "protocol-unavailable: the package broken cannot be used"
        " (broken = broken_protocol:PROTOCOLS): RuntimeError: no client library\n"
    )

    flags = ("--protocols", "FILES,HTTP")
    with RunningServer(tmp_path / "data", environ=environ, flags=flags) as server:
        asked = ("subscribe", "--url", server.url, "--protocol", "FILES")
        made = cli(*asked, "--sink", "file:///", "--file-name", "orders.jsonl", "--id", "a")
        assert made.returncode == 0, made.stderr
        assert msgspec.json.decode(made.stdout)["protocolsettings"]["sync"] is True
        made = cli(*asked, "--sink", "file:///orders.jsonl", "--setting", "sync=false")
        assert made.returncode == 0, made.stderr

        refused = cli(*asked, "--sink", "file:///.hidden", "--setting", "sync=3")
        assert refused.returncode != 0
        assert "the name of a file has letters" in refused.stderr
        assert "protocolsettings.sync" in refused.stderr

        described = server.request("GET", "/").json()["protocols"]
        assert described["FILES"]["sinkschemes"] == ["file"]
        schemas = server.request("GET", "/openapi.json").json()["components"]["schemas"]
        assert schemas["FilesSettings"]["properties"]["name"]["maxLength"] == 100
        mapping = schemas["SubscriptionProposal"]["discriminator"]["mapping"]
        assert mapping["FILES"].endswith("FilesSubscriptionProposal")

        headers = {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/s", "ce-type": "t"}
        assert server.request("POST", "/events", b"", headers).status == 202
        file = folder / "orders.jsonl"
        wait_until(lambda: file.exists() and file.read_bytes().count(b"\n") == 2, 60, "both lines")
        events = [msgspec.json.decode(line) for line in file.read_bytes().splitlines()]
        assert [event["id"] for event in events] == ["1", "1"]
        assert server.stop() == 0
