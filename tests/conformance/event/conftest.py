"""Where the CloudEvents conformance files stand: beside the repository, never copied into it."""

from pathlib import Path

import pytest

from kit import given


@pytest.fixture(scope="session")
def corpus() -> Path:
    """The folder of the official conformance files; NOT RUN where it is absent."""
    return given.needed(given.CLOUDEVENTS)
