"""The archive of a log that nodes share: of a topic of Kafka, with a lease of PostgreSQL."""

import json

import pyarrow.parquet as pq
import pytest

from distributary.core.errors import SettingsError, StoreError
from distributary.spark.archive.job import Wanted, archive
from distributary.spark.archive.logs import TopicLog
from distributary.spark.archive.rows import event_of
from distributary.spark.archive.session import run
from distributary.spark.cluster_conf import SHARED_KEY

PLACE = ["partition", "offset", "index"]

ALL_OLD_MS = 1 << 42
"""Before it everything was appended."""


def _wanted(log, to, *, newest=False, old_ms=0, **more):
    return Wanted(TopicLog(log.place, old_ms), str(to), newest, False, 2, **more)


def _fill(log, event, count=300):
    """Events of several forms over three days; returns them by place."""
    made = {}
    for number in range(count):
        partition = number % 2
        log.clock.now_ms += 3 * 86_400_000 // count
        match number % 4:
            case 0:
                events = [event(f"id-{number}", b"x" * number, n=number), event(f"{number}-b")]
                offset = log.append_published(partition, "shop", *events)
            case 1:
                events = [event(f"id-{number}", b"", text="\u00fc x")]
                offset = log.append_addressed(
                    partition, "broker-uid", *events, ttl=7, carried=b"traceparent: 00-1\r\n"
                )
            case 2:
                log.append_control(partition, b"{}")
                continue
            case _:
                log.append_timer_event(partition, event("timer"))
                continue
        made |= {(partition, offset, index): each for index, each in enumerate(events)}
    return made


def _archived(folder):
    """All rows of all files that manifests name."""
    return [
        row
        for path in sorted((folder / "manifests").glob("*.json"))
        for each in json.loads(path.read_bytes())["ranges"]
        for file in each["files"]
        for row in pq.ParquetFile(folder / "events" / file["path"]).read().to_pylist()
    ]


def _read(spark, log, to=None, **options):
    reader = spark.read.format("distributary").options(**log.options, **options)
    return (reader if to is None else reader.option("archive", str(to))).load()


def test_archive_and_topic_are_one_table(spark, topic_log, event, tmp_path):
    """Byte for byte, with who published it; what is deleted of the topic is read there."""
    log, to = topic_log, tmp_path / "archive"
    made = _fill(log, event)
    session = spark.newSession()
    # Nothing is old, and nothing fills a range.
    assert archive(session, _wanted(log, to)).events == 0
    done = archive(session, _wanted(log, to, old_ms=ALL_OLD_MS))
    rows = _archived(to)
    assert done.events == len(made) == len(rows)
    for row in rows:
        place = tuple(row[name] for name in PLACE)
        assert event_of(row["head"], row["data"]) == made[place]
        shop = row["address"] == ""
        assert (row["by"], row["ttl"] == 7) == (("shop", False) if shop else (None, True))
    later = _fill(log, event, 40)
    assert archive(session, _wanted(log, to)).events == 0
    bare = _read(spark, log).orderBy(PLACE).collect()
    assert log.delete_oldest(0) == 7
    assert _read(spark, log, to).orderBy(PLACE).collect() == bare
    one = _read(spark, log, to).where("id = 'id-1' OR logged_at < '2023-11-15'")
    assert 0 < one.count() < len(made)
    assert archive(session, _wanted(log, to, newest=True)).events == len(later)
    assert len(_archived(to)) == len(made) + len(later)


def test_what_another_job_may_have_written_stays(spark, topic_log, event, tmp_path):
    """A lease may run out unseen: nothing is named after it, and nothing young is deleted."""
    log, to = topic_log, tmp_path / "archive"
    made = _fill(log, event, 40)
    session = spark.newSession()
    checks = []

    def lapsed():
        checks.append(1)
        if len(checks) == 2:
            raise StoreError("the lease has run out")

    with pytest.raises(StoreError, match="has run out"):
        archive(session, _wanted(log, to, newest=True, check=lapsed))
    assert not list(to.glob("manifests/*.json"))
    left = {path.name for path in to.glob("events/day=*/range=*")}
    assert left
    done = archive(session, _wanted(log, to, newest=True, left_s=3_600.0))
    assert done.events == len(made)
    assert not done.swept
    assert left < {path.name for path in to.glob("events/day=*/range=*")}
    done = archive(session, _wanted(log, to, newest=True))
    assert {each.partition("range=")[2] for each in done.swept} == {
        each.partition("range=")[2] for each in left
    }


def test_a_cluster_that_would_get_the_password_in_clear_is_refused(topic_log, tmp_path):
    """Before anything starts; a secret of the operator lets it in, as for a server."""
    wanted = _wanted(topic_log, tmp_path / "archive")
    for conf in ({}, {SHARED_KEY: "s", "spark.network.crypto.enabled": "false"}):
        with pytest.raises(SettingsError, match="The Spark cluster is not protected"):
            run(wanted, tmp_path / "scratch", "spark://localhost:1", conf, lambda _done: None)
