"""The systemd unit: its form, how exposed it leaves the machine, and where it is installed."""

import ipaddress
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from distributary.cli._console import EXIT_CODES, UNUSABLE
from distributary.resource.sinks import METADATA_NETWORKS
from distributary.server.processes.supervision.ends import EXIT_CANNOT_RUN, EXIT_DISK_FULL
from kit.unit_sandbox import read_unit

ROOT = Path(__file__).parents[2]
UNIT = ROOT / "packaging" / "distributary.service"
EXPOSURE_MAX = "20"
"""Tenths of a point, of 100 tenths; 96 is what a unit without hardening gets. Ours has 14 with
systemd 252; other versions count a little differently."""


def _analyze(*arguments: str) -> str:
    """What systemd-analyze says; it must succeed. Without it the test is NOT RUN."""
    if not shutil.which("systemd-analyze"):
        pytest.skip("NOT RUN: systemd-analyze: it is not on this machine (Debian: systemd)")
    ran = subprocess.run(
        ["systemd-analyze", "--no-pager", *arguments],
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=os.environ | {"SYSTEMD_COLORS": "0"},
    )
    assert ran.returncode == 0, ran.stdout
    return ran.stdout


def test_systemd_takes_every_line(tmp_path: Path) -> None:
    """`systemd-analyze verify` knows each key and value; the program alone is put elsewhere."""
    copy = tmp_path / UNIT.name
    text = UNIT.read_text()
    assert text.count("/opt/distributary/bin/distributary ") == 1
    copy.write_text(text.replace("/opt/distributary/bin/distributary ", f"{sys.executable} "))
    said = _analyze("verify", "--man=no", str(copy))  # of other units of this machine too
    assert [line for line in said.splitlines() if UNIT.name in line] == []


def test_the_unit_leaves_little_exposed(tmp_path: Path) -> None:
    """`systemd-analyze security` stays under its threshold: some lines less would show."""
    copy = tmp_path / UNIT.name
    copy.write_text(UNIT.read_text())
    said = _analyze("security", "--offline=true", f"--threshold={EXPOSURE_MAX}", str(copy))
    assert "Overall exposure level" in said


def test_the_metadata_services_cannot_be_dialled() -> None:
    """The networks that no sink may have are those that the unit denies, for every process."""
    lines = read_unit(UNIT.read_text())["IPAddressDeny"]
    denied = [ipaddress.ip_network(one) for line in lines for one in line.split()]
    assert ipaddress.ip_network("169.254.0.0/16") in denied
    for network in METADATA_NETWORKS:
        assert any(
            network.version == one.version and network.subnet_of(one)  # type: ignore[arg-type]
            for one in denied
        ), network


def test_java_can_compile_and_nothing_else_is_open() -> None:
    """What must not be stricter for Java, and what must never be less strict."""
    unit = read_unit(UNIT.read_text())
    assert unit["MemoryDenyWriteExecute"] == ["no"]
    assert "ProcSubset" not in unit
    assert "ProtectProc" not in unit
    expected = {
        "CapabilityBoundingSet": [],
        "LimitCORE": ["0"],
        "NoNewPrivileges": ["yes"],
        "PrivateTmp": ["yes"],
        "ProtectSystem": ["strict"],
        "UMask": ["0077"],
    }
    assert {key: unit[key] for key in expected} == expected
    assert any(line.startswith("credentials.key:/") for line in unit["LoadCredential"])


def test_no_restart_follows_what_none_mends() -> None:
    """Wrong settings, a full disk at the first start, files that cannot be used."""
    (prevented,) = read_unit(UNIT.read_text())["RestartPreventExitStatus"]
    codes = {int(code) for code in prevented.split()}
    assert codes == {UNUSABLE, EXIT_DISK_FULL, EXIT_CANNOT_RUN}
    assert codes <= set(EXIT_CODES)


def test_the_guide_uses_the_file() -> None:
    """The guide points to the one file, and repeats no line of it that could differ."""
    guide = (ROOT / "docs" / "how-to" / "run-a-server.md").read_text()
    assert "(../../packaging/distributary.service)" in guide
    assert not re.search(r"^(ExecStart|RestartSec|Restart)=", guide, re.MULTILINE)


@pytest.mark.slow
def test_the_wheel_has_the_file(tmp_path: Path) -> None:
    """In share/distributary of wherever it is installed; built by the backend of build.txt."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, check=True, cwd=ROOT, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        (entry,) = (name for name in archive.namelist() if name.endswith("/distributary.service"))
        assert entry.endswith(".data/data/share/distributary/distributary.service")
        assert archive.read(entry) == UNIT.read_bytes()
