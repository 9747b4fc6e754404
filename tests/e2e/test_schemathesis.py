"""The API description against the server that it describes, by requests made of it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent

RUN_S_MAX = 600.0
"""Longest run of the tool: it takes half a minute on two cores that do nothing else, and took 300 s
where thirty processes wanted them."""

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_the_server_does_what_its_description_says(plain_server, tmp_path):
    """Every answer is described; bad input is refused, good input taken; nothing is a 500.

    Deleted subscriptions are gone, created ones are there; methods not described are 405.
    """
    command = [
        *(sys.executable, "-m", "schemathesis.cli"),
        *("--config-file", str(HERE / "schemathesis.toml")),
        *("run", f"{plain_server.url}/openapi.json", "--no-color"),
    ]
    environ = os.environ | {"SCHEMATHESIS_HOOKS": str(HERE / "schemathesis_hooks.py")}
    # Its files go to the folder that it runs in.
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env=environ,
        capture_output=True,
        text=True,
        timeout=RUN_S_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-2_000:]
    assert "Stateful (in" in done.stdout  # a phase that did not run shows nothing
