"""The fixtures of the unit tests of objects, with their store in PostgreSQL."""

import pytest

from kit.tests_again import fixtures_of

globals().update(fixtures_of("unit/knative/apiserver/objects/conftest.py", but=["url"]))


@pytest.fixture
def url(emptied_url):
    """Where the store is."""
    return emptied_url
