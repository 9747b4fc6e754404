"""Secrets of sources: the environment of each process that the server starts, but the sources'."""

import socket
import subprocess
from types import SimpleNamespace

import pytest

from distributary.core.cluster import KafkaPlace, SharedPlaces
from distributary.datadir import DataDir
from distributary.server.processes.control.index import index_child
from distributary.server.processes.node._node_control import NodeControl
from distributary.server.processes.pipeline.archiving import archive_child
from distributary.server.settings import Settings

CANARIES = {"ORDERS_PASSWORD": "canary-password", "ORDERS_TOKEN": "canary-token"}


@pytest.fixture
def started(monkeypatch):
    """Environments of the processes that were started; none of them runs."""
    environs = []

    def start(*_arguments, env, **_more):
        environs.append(env)
        raise OSError("the test starts nothing")

    for name, value in (CANARIES | {"SEEN": "yes"}).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(subprocess, "Popen", start)
    return environs


@pytest.fixture
def settings(tmp_path):
    """Two sources, each with a secret in a variable, and an archive."""
    orders = {"name": "orders", "protocol": "NATS", "uri": "nats://n", "subject": "s"}
    named = {"identifier": "till", "secret_env": "ORDERS_PASSWORD"}
    bearer = {"name": "more", "token_env": "ORDERS_TOKEN"}
    sources = (orders | named, orders | bearer)
    return Settings(auth="off", sources=sources, archive=str(tmp_path / "archive"))


def _index(settings, paths, line):
    return index_child(settings, paths, 2, line)


def _archive(settings, paths, line):
    return archive_child(settings, paths, line)


def _recall(settings, paths, line):
    return archive_child(settings, paths, line, recalls=True)


def _control(settings, paths, line):
    paths.run.mkdir(parents=True)
    places = SharedPlaces(log=KafkaPlace(servers="k:9092", prefix="p"), store="postgresql://p/d")
    with socket.socket() as one, socket.socket() as other:
        listeners = SimpleNamespace(http=one, own=other)
        node = NodeControl(paths, places, listeners, node="n", receivers=1, line=line)
        node.begin(3, 1e9, settings)
    return node.child


@pytest.mark.parametrize("make", [_index, _archive, _recall, _control])
def test_no_other_process_inherits_a_secret_of_a_source(make, settings, started, tmp_path):
    """What such a process shows or logs of its environment holds no secret of others."""
    child = make(settings, DataDir(tmp_path), lambda _line: None)
    if child.role != "control":  # which its node has started
        child.start()
    child.stop(1.0)
    assert started
    for environ in started:
        assert environ["SEEN"] == "yes"
        assert not set(CANARIES) & environ.keys()
        assert not set(CANARIES.values()) & set(environ.values())
