"""Who may speak to Spark's ports, by its settings."""

import pytest

from distributary.spark.session import SHARED_KEY, authentication


@pytest.mark.parametrize("master", ["local", "local[8,4]", "local[*]"])
def test_local_mode_asks_for_the_secret_that_spark_makes(master):
    """On, and nothing encrypted: what is sent stays on this machine."""
    assert authentication(master, {}) == {"spark.authenticate": "true"}


@pytest.mark.parametrize("master", ["yarn", "k8s://https://k.example", "spark://m.example:7077"])
def test_what_leaves_this_machine_is_encrypted_too(master):
    """A secret that is there, or that Spark makes, is used for both."""
    assert authentication(master, {SHARED_KEY: "s"}) == {
        "spark.authenticate": "true",
        "spark.network.crypto.enabled": "true",
    }


def test_a_cluster_without_a_secret_is_left_as_it_was_set_up():
    """Its master would refuse a driver that asks for what it does not know."""
    assert authentication("spark://m.example:7077", {}) == {}
