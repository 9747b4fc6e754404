"""The tables beside the events: what became of them, and for whom, in one data directory."""

import asyncio
import json
import re
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pyspark
import pytest
from pyspark.errors import PySparkException

from distributary.core.database import sqlite_url
from distributary.core.event import Event, record
from distributary.core.flow import DoneKey
from distributary.core.outcome import Changes, DeadLetter, DeliveryStore, Failure
from distributary.datadir import DataDir
from distributary.resource import SinkRule
from distributary.spark import register
from distributary.subscriptions.service import Subscriptions, rules
from distributary.subscriptions.store.store import Store
from distributary.subscriptions.store.stored import Precondition
from distributary.testing.virtual import VirtualClock
from kit.history_files import DELIVERED, RETRIED, row, write_rows
from kit.memory_routes import MemoryRouteAppender

GUIDE = Path(__file__).parents[2] / "docs" / "how-to" / "query-the-tables.md"
NOW_S = 1_700_000_000
SPEC = {
    "sink": "http://127.0.0.1:9/?token=canary",
    "protocol": "HTTP",
    "protocolsettings": {"headers": {"Authorization": "canary"}},
    "types": ["com.example.order"],
    "filters": [{"prefix": {"source": "/shop"}}],
}


def _subscribe(paths):
    """One subscription, with secrets; returns its uid."""

    async def put():
        store = Store(sqlite_url(paths.state_db))
        subscriptions = Subscriptions(
            store, MemoryRouteAppender(), rules(SinkRule(local_allowed=True)), VirtualClock()
        )
        await subscriptions.start()
        await subscriptions.replace("orders", SPEC, Precondition(), "default")
        uid = store.find("orders", "default").uid
        await subscriptions.close()
        store.close()
        return uid

    return asyncio.run(put())


def _dead_letter(paths, uid):
    """One dead letter in partition 1."""
    paths.delivery_db(1).parent.mkdir(parents=True)
    store = DeliveryStore(sqlite_url(paths.delivery_db(1)), 1)
    event = Event({"specversion": "1.0", "id": "id-7", "source": "/shop", "type": "t"}, b"{}")
    failure = Failure("status-503", "http://127.0.0.1:9/?token=canary", 503, "bm8=")
    letter = DeadLetter(
        DoneKey(7, 0, uid), 1, failure, record.encode([event]), NOW_S * 1000, "default"
    )
    store.apply(Changes(dead_letters=[letter]))
    store.close()


@pytest.fixture
def made(spark, log, event):
    """A data directory with something in each table, and its tables in the catalog."""
    paths = DataDir(log.data_dir)
    uid = _subscribe(paths)
    _dead_letter(paths, uid)
    rows = [row(0, NOW_S, **RETRIED, uid=uid), row(1, NOW_S + 1, **DELIVERED, uid=uid)]
    write_rows(paths.history, rows[0])
    write_rows(paths.history, rows[1])
    write_rows(paths.history, *rows)  # merged; the small files are not deleted yet
    dropped = {"outcome": "dropped", "stage": None, "attempt": None, "duration": None}
    write_rows(paths.history, row(2, NOW_S + 90_000, **dropped, uid=uid))
    log.append(0, event("id-0"))
    log.append(0, event("id-1"))
    register(spark, log.data_dir)
    yield log.data_dir, uid
    spark.sql("DROP DATABASE distributary CASCADE")


def _all(frame):
    return [each.asDict() for each in frame.collect()]


def test_each_table_has_its_rows_and_they_join(spark, made):
    """Keys lead from an outcome to its event and its subscription; no secret is shown."""
    _, uid = made
    (subscription,) = _all(spark.table("distributary.subscriptions"))
    assert subscription["uid"] == uid
    assert subscription["sink"] == "http://127.0.0.1:9/"
    assert subscription["types"] == ["com.example.order"]
    assert json.loads(subscription["filters"]) == SPEC["filters"]
    assert subscription["halted"] is False
    (letter,) = _all(spark.table("distributary.dead_letters"))
    assert (letter["partition"], letter["offset"], letter["uid"]) == (1, 7, uid)
    assert letter["kept"] == datetime.fromtimestamp(NOW_S, UTC).replace(tzinfo=None)
    assert (letter["event_id"], letter["status"], letter["answer"]) == ("id-7", 503, b"no")
    assert "canary" not in str([letter, subscription])
    joined = spark.sql("""
        SELECT e.id, s.id AS subscription, o.outcome FROM distributary.outcomes o
        JOIN distributary.events e USING (`partition`, `offset`, `index`)
        JOIN distributary.subscriptions s USING (uid)
    """)
    assert _all(joined) == [{"id": "id-1", "subscription": "orders", "outcome": "delivered"}]
    attempts = spark.table("distributary.attempts").orderBy("number")
    assert [(each.number, each.decision) for each in attempts.collect()] == [
        (0, "retry"),
        (1, "delivered"),
    ]
    early = spark.sql("SELECT number FROM distributary.outcomes WHERE time < '2023-11-15 12:00'")
    assert [each.number for each in early.collect()] == [1]
    dropped = spark.sql("SELECT number FROM distributary.outcomes WHERE outcome = 'dropped'")
    assert [each.number for each in dropped.collect()] == [2]


def test_mistakes_are_said(spark, made):
    """Options of another table, a stream of what is no stream, and a history that is not there."""
    data_dir, _ = made
    reader = spark.read.format("distributary").option("table", "outcomes")
    with pytest.raises(PySparkException, match="startingOffsets: of the table events alone"):
        reader.option("startingOffsets", "latest").load(str(data_dir))
    stream = spark.readStream.format("distributary").option("table", "dead_letters")
    with pytest.raises(PySparkException, match="is a table for batch reads"):
        stream.load(str(data_dir)).writeStream.format("noop").start().processAllAvailable()
    other = spark.read.format("distributary").option("table", "outcomes")
    with pytest.raises(PySparkException, match="there is no history at"):
        other.load(str(data_dir / "log")).count()


def test_the_examples_of_the_guide_run(spark, made, capsys):
    """Every query of the guide."""
    data_dir, _ = made
    blocks = re.findall(
        r"^```python run-spark\n(.*?)^```$", GUIDE.read_text("utf-8"), re.MULTILINE | re.DOTALL
    )
    assert len(blocks) == 3
    namespace = {"spark": spark, "data_dir": str(data_dir)}
    for block in blocks:
        exec(compile(block, "guide", "exec"), namespace)
    shown = capsys.readouterr().out
    assert re.search(r"orders\| *delivered\| +1\|", shown)
    assert "status-503" in shown


SHELL = """
CREATE TABLE events USING distributary OPTIONS (path '{data_dir}');
CREATE TABLE outcomes USING distributary OPTIONS (path '{data_dir}', table 'outcomes');
SELECT e.id, o.outcome FROM events e JOIN outcomes o
    ON o.partition = e.partition AND o.offset = e.offset AND o.index = e.index
    WHERE e.id LIKE 'id-%';
"""


def test_the_shell_of_sparks_sql_has_the_tables(spark, made, tmp_path):
    """Without a line of Python: the installed package is found by name."""
    data_dir, _ = made
    shell = Path(pyspark.__file__).parent / "bin" / "spark-sql"
    statements = tmp_path / "statements.sql"
    statements.write_text(SHELL.format(data_dir=data_dir))
    conf = {
        "spark.ui.enabled": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.python.filterPushdown.enabled": "true",
        "spark.sql.warehouse.dir": str(tmp_path / "warehouse"),
    }
    pairs = [word for name, value in conf.items() for word in ("--conf", f"{name}={value}")]
    assert spark is not None  # its environment has Java and Python
    ran = subprocess.run(
        [str(shell), "--master", "local[2]", *pairs, "-f", str(statements)],
        cwd=tmp_path,  # its catalog is made here
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    assert ran.stdout.splitlines() == ["id-1\tdelivered"]
