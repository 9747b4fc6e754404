"""Why the control part of a node has ended, and what the node makes of it."""

import socket
from types import SimpleNamespace

import pytest

from distributary.core.cluster import KafkaPlace, SharedPlaces
from distributary.datadir import DataDir
from distributary.server.processes.node import _node_control
from distributary.server.processes.node._node_control import NodeControl
from distributary.server.processes.node.led import EXIT_LAPSED, EXIT_LED
from distributary.server.processes.supervision.ends import EXIT_CANNOT_RUN
from distributary.server.settings import Settings


class Part:
    """A control part that ends when the test says so."""

    def __init__(self, _name, _command, *, ended, **_more):
        self.ended = ended

    def start(self):
        """There is no process."""


@pytest.fixture
def control(tmp_path, monkeypatch):
    """One that runs."""
    monkeypatch.setattr(_node_control, "Child", Part)
    paths = DataDir(tmp_path)
    paths.run.mkdir(parents=True)
    places = SharedPlaces(log=KafkaPlace(servers="k:9092", prefix="p"), store="postgresql://p/d")
    with socket.socket() as one, socket.socket() as other:
        made = NodeControl(
            paths,
            places,
            SimpleNamespace(http=one, own=other),
            node="n",
            receivers=1,
            line=lambda _line: None,
        )
        made.begin(3, 1e9, Settings(auth="off"))
        yield made


@pytest.mark.parametrize(
    ("code", "again", "becomes"),
    [
        pytest.param(
            EXIT_LAPSED, False, (True, False, False), id="lapsed, and renewed before it was seen"
        ),
        pytest.param(EXIT_LED, False, (True, True, False), id="another node might"),
        pytest.param(EXIT_CANNOT_RUN, False, (True, True, True), id="no restart mends it"),
        pytest.param(-9, True, (False, False, False), id="killed"),
    ],
)
def test_a_lapsed_lease_is_no_failure_of_the_node(control, code, again, becomes):
    """By the exit code, not by the clock: the lease may hold again when the exit is seen."""
    assert control.child.ended(code) is again
    assert (control.ended, control.failed, control.unfit) == becomes
