"""A keeper of consents over an empty store, in virtual time."""

import pytest

from kit.consent_world import World


@pytest.fixture
def world(store, url, spec, runner):
    """A keeper over the empty store."""
    made = World(store, url, spec, runner)
    yield made
    made.close()
