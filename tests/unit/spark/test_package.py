"""The package for executors: importable alone, and equal for equal sources."""

import subprocess
import sys
import zipfile

import pytest

from distributary.spark.package import LEFT_OUT, make_package

PROGRAM = """
import sys
sys.path[:] = [sys.argv[1], *(each for each in sys.path if "distributary" not in each)]
import distributary, distributary.spark._delivery_task, distributary.partitions.cluster_places
from distributary.core.protocol import protocols
print(distributary.__file__)
print(*sorted(protocols()))
"""


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """The package, made once."""
    return make_package(tmp_path_factory.mktemp("package") / "distributary.zip")


def test_an_owner_can_be_imported_from_the_package_alone(package, tmp_path):
    """From the zip, compiled, with all protocols of deliveries."""
    done = subprocess.run(
        [sys.executable, "-S", "-c", _with_site_packages(), str(package)],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    place, names = done.stdout.splitlines()
    assert place == f"{package}/distributary/__init__.pyc"
    assert {"HTTP", "KAFKA", "AMQP", "MQTT5", "NATS"} <= set(names.split())


def _with_site_packages():
    folders = [each for each in sys.path if each.endswith("site-packages")]
    return f"import sys; sys.path += {folders!r}\n{PROGRAM}"


def test_the_package_has_no_server(package):
    """Executors deliver; they serve nothing, and get no page, no command and no test kit."""
    names = zipfile.ZipFile(package).namelist()
    assert [name for name in names if name.split("/")[1] in LEFT_OUT] == []
    assert not any("__pycache__" in name for name in names)


def test_equal_sources_make_equal_packages(package, tmp_path):
    """Who signs or compares packages finds nothing of the day or the folder in them."""
    assert make_package(tmp_path / "other.zip").read_bytes() == package.read_bytes()
