"""Kafka, PostgreSQL and a standalone Spark cluster, for owners on executors."""

from pathlib import Path

import pytest

from kit.servers.fixtures import authority, kafka, postgres

__all__ = ["authority", "kafka", "postgres"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Every test here needs all of them."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.spark)
            item.add_marker(pytest.mark.slow)
