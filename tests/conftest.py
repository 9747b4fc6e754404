"""What all tests share: those marked ``soak`` are left out where nobody asks for them."""

from hypothesis import settings

from kit.servers.fixtures import kafka_cluster

__all__ = ["kafka_cluster"]

# A deadline is a clock in a test: a busy machine would break it.
settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")


def pytest_collection_modifyitems(config, items):
    """``-m soak`` runs them, as ``make soak`` does; the list with reasons is in CONTRIBUTING.md."""
    if "soak" in config.option.markexpr:
        return
    left_out = [item for item in items if item.get_closest_marker("soak")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker("soak")]
