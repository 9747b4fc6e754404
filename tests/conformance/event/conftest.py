"""Where the CloudEvents conformance files stand: beside the repository, never copied into it."""

from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[3] / ".." / "shared" / "conformance" / "cloudevents"


@pytest.fixture(scope="session")
def corpus() -> Path:
    """The folder of the official conformance files; skips where it is absent."""
    if not FOLDER.is_dir():
        pytest.skip("the CloudEvents conformance files are not beside this repository")
    return FOLDER
