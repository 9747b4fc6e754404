"""The fixtures of the unit tests of subscriptions, with their store in PostgreSQL."""

import pytest

from kit.tests_again import fixtures_of

globals().update(fixtures_of("unit/subscriptions/conftest.py", but=["url"]))


@pytest.fixture
def url(emptied_url, keys_beside):  # noqa: ARG001 - it opens what it seals
    """Where the store is."""
    return emptied_url
