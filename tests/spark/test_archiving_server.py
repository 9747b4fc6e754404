"""A server with an archive: it archives, cuts its log, and sends archived events again."""

import json
import os
from collections import Counter

from distributary.cli._behaviour import Behaviour
from kit.running_server import Role, RunningServer, wait_until
from kit.traffic import Traffic

SMALL = 400
"""Events of the first segment that somebody subscribes to."""


def _publish(server, id_, type_, body):
    fields = {"ce-specversion": "1.0", "ce-id": id_, "ce-source": "/s", "ce-type": type_}
    assert server.request("POST", "/events", body, fields).status == 202


def test_a_server_archives_by_itself_and_sends_again_what_its_log_has_no_more(spark, tmp_path):
    """A full segment is archived, checked, and deleted; a replay and a ``start`` read it back.

    A consumer is killed while the replay goes on: each event comes once more, copies are of what
    was under way alone.
    """
    to = tmp_path / "archive"
    flags = ["--partitions", "1", "--archive", str(to), "--archive-every-s", "2s"]
    flags += ["--retention-bytes-max", "1MiB"]
    sinks = {"old": Behaviour(delay_s=0.01), "new": Behaviour()}
    with (
        Traffic(tmp_path, sinks, keep_requests=True) as traffic,
        RunningServer(tmp_path / "data", flags=flags) as server,
    ):
        url = {name: sink.url for name, sink in traffic.sinks.items()}

        def got(name):
            kept = tuple(traffic.sinks[name].requests)
            return [dict(request.headers)[b"ce-id"].decode() for request in kept]

        def logged(event):
            lines = map(json.loads, server.log.read_text("utf-8").splitlines())
            return [line for line in lines if line["event"] == event]

        old = server.subscribe(url["old"], filters=[{"exact": {"type": "order"}}])
        ids = [f"order-{number}" for number in range(SMALL)]
        for id_ in ids:
            _publish(server, id_, "order", b"x" * 500)
        body = os.urandom(900_000)
        for number in range(80):  # more than one segment of 64 MiB
            _publish(server, f"large-{number}", "large", body)
        wait_until(lambda: len(got("old")) == SMALL, 120.0, "each event has come")
        wait_until(lambda: logged("segments-deleted"), 180.0, "retention has cut the log")
        # Retention knows what is archived before the job has stopped its Spark, and says so.
        wait_until(lambda: logged("archived"), 60.0, "the job says what it has archived")
        line = logged("archived")[0]
        assert SMALL < line["events"] < SMALL + 80
        reader = spark.read.format("distributary").option("archive", str(to))
        table = reader.load(str(server.data_dir))
        assert table.where("type = 'large'").count() == 80

        asked = {"from": "2000-01-01T00:00:00Z", "run": "again"}
        path = f"/subscriptions/{old}/replay"
        fields = {"content-type": "application/json"}
        response = server.request("POST", path, json.dumps(asked).encode(), fields)
        assert response.status == 202, response.body
        wait_until(lambda: len(got("old")) >= SMALL + 50, 180.0, "the replay sends")
        server.kill(Role.WRITER)
        new = server.subscribe(
            url["new"], filters=[{"exact": {"type": "order"}}], config={"start": "earliest"}
        )

        def run():
            return server.request("GET", "/runs/again").json()

        wait_until(lambda: run()["state"] == "done", 180.0, "the replay ends")
        assert (run()["selected"], run()["handled"] + run()["passed"]) == (SMALL, SMALL)
        assert "oldest" not in run()
        wait_until(lambda: set(got("new")) == set(ids), 180.0, "the new one has all of history")
        wait_until(lambda: len(set(got("old")[SMALL:])) == SMALL, 60.0, "each came once more")
        assert set(got("old")) == set(ids)
        assert max(Counter(got("old")).values()) <= 3  # and once more after the kill
        # Owners read a segment from the moment it stands there; the line follows the job's end.
        wait_until(lambda: logged("recalled"), 60.0, "the recall says what it has brought")
        assert not logged("recall-failed")
        assert not logged("records-lost")
        assert server.request("GET", f"/subscriptions/{new}").status == 200
        assert server.stop() == 0
