"""``distributary import`` on an export of a real cluster's shape, as the how-to says it."""

import subprocess
import sys
from pathlib import Path

import pytest

from distributary.knative.kinds import BROKER, CHANNEL, NAMESPACE, SUBSCRIPTION, TRIGGER
from kit.running_server import clean_environ, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.slow]

EXPORT = Path(__file__).with_name("cluster_export.yaml").read_text("utf-8")
KEPT = ((BROKER, "shop"), (TRIGGER, "orders"), (CHANNEL, "parcels"), (SUBSCRIPTION, "carrier"))
LISTED_S_MAX = 30.0
"""Longest wait for the list of subscribers in the status of a Channel."""
LEFT = ("lost", "shop-orders-5b7b1a9c", "steps")


def imported(server, export, *words):
    """What one import prints, line by line, and its exit code."""
    command = [sys.executable, "-m", "distributary.cli", "import", "-", "--url", server.url, *words]
    done = subprocess.run(
        command, input=export, capture_output=True, text=True, check=False, env=clean_environ()
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def export(api, sinks):
    """The export with this test's namespace, and a sink where the subscribers were."""
    sink = sinks.sink(f"/{api.namespace}")
    return EXPORT.replace("NAMESPACE", api.namespace).replace("SINK", sink.url), sink


def test_a_cluster_moves_in_by_one_command(server, api, export):
    """Everything is Ready and delivers; what is left is named with its reason; twice is once."""
    text, sink = export
    dry = imported(server, text, "--dry-run")
    assert "nothing was written" in dry
    assert api.send("GET", api.path(BROKER, "shop")).status == 404
    told = imported(server, text)
    assert "0 refused" in told
    for kind, name in KEPT:
        obj = api.ready(kind, name)
        assert not {"finalizers", "ownerReferences"} & set(obj["metadata"])
    for name in LEFT:
        (line,) = (line for line in told.splitlines() if name in line and line[0] != " ")
        assert line.startswith("left")
    sink.wait_for(api.publish(api.address(BROKER, "shop"), type="com.example.order"))
    sink.wait_for(api.publish(api.address(CHANNEL, "parcels")))
    # A Channel lists its Subscriptions after they have become Ready: a write of the server's own.
    wait_until(
        lambda: api.read(CHANNEL, "parcels").get("status", {}).get("subscribers"),
        LISTED_S_MAX,
        "the Channel lists its Subscription",
    )
    before = [api.read(kind, name)["metadata"]["resourceVersion"] for kind, name in KEPT]
    imported(server, text)
    assert [api.read(kind, name)["metadata"]["resourceVersion"] for kind, name in KEPT] == before
    api.delete(SUBSCRIPTION, "carrier")  # would wait for ever for the finalizer of the old cluster
    assert api.send("DELETE", api.path(NAMESPACE, api.namespace)).status == 200
