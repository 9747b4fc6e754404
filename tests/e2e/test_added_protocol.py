"""A delivery protocol of another package: ``examples/files-protocol``, as an installer adds it."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kit.history_rows import history_rows
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


HALF = """
import dataclasses
import distributary_files
(files,) = distributary_files.PROTOCOLS
PROTOCOLS = (dataclasses.replace(files, name="HALF", flags={}, sink="half_sink:make"),)
"""


def _install(site: Path, name: str, source: str) -> None:
    """Install a package there, of one module, which declares protocols."""
    (site / f"{name}_protocol.py").write_text(source)
    metadata = site / f"{name}-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    entry = f"[distributary.protocols]\n{name} = {name}_protocol:PROTOCOLS\n"
    (metadata / "entry_points.txt").write_text(entry)


def _failed(data: Path) -> list[dict[str, Any]]:
    """The attempts that did not deliver."""
    return [row for row in history_rows(data) if row["decision"] != "delivered"]


def test_a_package_of_somebody_else_adds_a_protocol(tmp_path: Path) -> None:
    """Subscribe, deliver, settings, flags, description: without a line changed here.

    A second package that cannot be imported is reported, and so is a third whose sink cannot: its
    deliveries alone fail, and are made again.
    """
    folder = tmp_path / "files"
    folder.mkdir()
    environ = _installed(tmp_path / "site") | {"FILES_FOLDER": str(folder)}

    def cli(*words: str) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, "-m", "distributary.cli", *words]
        return subprocess.run(command, env=environ, capture_output=True, text=True, check=False)

    _install(tmp_path / "site", "broken", "raise RuntimeError('no client library')\n")
    _install(tmp_path / "site", "half", HALF)
    told = cli("subscribe", "--help")
    assert told.returncode == 0
    assert told.stdout
    assert told.stderr == (
        "protocol-unavailable: the package broken cannot be used"
        " (broken = broken_protocol:PROTOCOLS): RuntimeError: no client library\n"
    )

    flags = ("--protocols", "FILES,HALF,HTTP")
    with RunningServer(tmp_path / "data", environ=environ, flags=flags) as server:
        asked = ("subscribe", "--url", server.url, "--protocol", "FILES")
        made = cli(*asked, "--sink", "file:///", "--file-name", "orders.jsonl", "--id", "a")
        assert made.returncode == 0, made.stderr
        assert msgspec.json.decode(made.stdout)["protocolsettings"]["sync"] is True
        made = cli(*asked, "--sink", "file:///orders.jsonl", "--setting", "sync=false")
        assert made.returncode == 0, made.stderr

        half = ("subscribe", "--url", server.url, "--protocol", "HALF", "--id", "half")
        made = cli(*half, "--sink", "file:///half.jsonl")
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

        reason = (
            "the package half cannot be used (half_sink:make):"
            " ModuleNotFoundError: No module named 'half_sink'"
        )
        said = [line for line in server.log.read_text().splitlines() if reason in line]
        owned = [line for line in said if '"event": "protocol-unavailable"' in line]
        owners = 2 * server.partition_count()  # two processes take turns at a partition
        assert 1 <= len(owned) <= owners
        wait_until(lambda: len(_failed(tmp_path / "data")) > 1, 30, "a second attempt")
        assert {(row["decision"], row["reason"]) for row in _failed(tmp_path / "data")} == {
            ("retry", "unreadable-settings")
        }
        assert server.stop() == 0
