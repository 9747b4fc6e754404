"""Who may speak to Spark's ports, by its settings."""

import tempfile
from pathlib import Path

import pytest

from distributary.spark.cluster_conf import SHARED_KEY
from distributary.spark.session import (
    at_launch,
    authentication,
    sparse_heartbeats,
    worker_sockets,
)


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


def test_sockets_of_workers_lie_in_a_folder_of_ours():
    """Made for its owner alone; what a kill left there is gone."""
    with tempfile.TemporaryDirectory() as short:
        folder = Path(short) / "workers"
        folder.mkdir()
        (folder / ".old.sock").touch()
        assert worker_sockets(folder) == {"spark.python.unix.domain.socket.dir": str(folder)}
        assert list(folder.iterdir()) == []
        assert folder.stat().st_mode & 0o077 == 0


def test_a_path_too_long_for_sockets_leaves_them_where_spark_puts_them():
    """Spark would start no query with a longer one than 60 bytes."""
    with tempfile.TemporaryDirectory() as short:
        longest = Path(short) / ("x" * (59 - len(short)))
        assert len(str(longest)) == 60
        assert worker_sockets(longest)
        folder = Path(short) / ("x" * (60 - len(short)))
        assert worker_sockets(folder) == {}
        assert not folder.exists()


@pytest.mark.parametrize(
    "name",
    [
        SHARED_KEY,
        "spark.ssl.keyPassword",
        "spark.hadoop.fs.s3a.access.key",
        "spark.hadoop.fs.s3a.session.token",
        "spark.hadoop.fs.azure.account.key.name.dfs.core.windows.net",
    ],
)
def test_secrets_are_kept_off_the_command_line_of_the_jvm(name):
    """Every user of the machine reads it; what the JVM must know to start stands there."""
    plain = {"spark.driver.memory": "2g", "spark.authenticate": "true"}
    plain |= {"spark.ssl.keyStore": "/k", "spark.kerberos.keytab": "/t"}  # paths
    assert at_launch(plain | {name: "s"}) == plain


def test_heartbeats_to_oneself_are_sparse() -> None:
    """Unless the operator has chosen a timeout, which Spark wants to be longer."""
    assert sparse_heartbeats({}) == {"spark.executor.heartbeatInterval": "60s"}
    assert sparse_heartbeats({"spark.network.timeout": "30s"}) == {}
