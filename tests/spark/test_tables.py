"""The tables beside the events: what became of them, and for whom.

Of one data directory, and of what several nodes share.
"""

import asyncio
import contextlib
import io
import json
import re
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pyspark
import pytest
from pyspark.errors import PySparkException

import distributary.spark
from distributary.core import database
from distributary.core.database import database_url, sqlite_url
from distributary.core.event import Event, record
from distributary.core.flow import DoneKey, Mark
from distributary.core.outcome import Batch, Changes, DeadLetter, DeliveryStore, Failure
from distributary.core.outcome.postgres import (
    PartitionFence,
    PostgresOwnership,
    prepare_outcomes,
)
from distributary.datadir import DataDir
from distributary.resource import SinkRule
from distributary.spark import register
from distributary.subscriptions.service import Subscriptions, rules
from distributary.subscriptions.store import Keys, Sealer
from distributary.subscriptions.store.store import Store
from distributary.subscriptions.store.stored import Precondition
from distributary.testing.virtual import VirtualClock
from kit import short_jvm
from kit.history_files import DELIVERED, RETRIED, row, write_rows
from kit.memory_routes import MemoryRouteAppender
from kit.servers._base import PASSWORD

GUIDE = Path(__file__).parents[2] / "docs" / "how-to" / "query-the-tables.md"
NOW_S = 1_700_000_000
SPEC = {
    "sink": "http://127.0.0.1:9/?token=canary",
    "protocol": "HTTP",
    "protocolsettings": {"headers": {"Authorization": "canary"}},
    "types": ["com.example.order"],
    "filters": [{"prefix": {"source": "/shop"}}],
}


def _subscribe(url, keys):
    """One subscription, with secrets; returns its uid."""

    async def put():
        store = Store(url, sealer=Sealer(keys))
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


def _letter(uid):
    """Of an event in partition 1."""
    event = Event({"specversion": "1.0", "id": "id-7", "source": "/shop", "type": "t"}, b"{}")
    failure = Failure("status-503", "http://127.0.0.1:9/?token=canary", 503, "bm8=")
    key, kept = DoneKey(7, 0, uid), record.encode([event])
    return DeadLetter(key, 1, failure, kept, NOW_S * 1000, "default")


def _history(folder, uid):
    rows = [row(0, NOW_S, **RETRIED, uid=uid), row(1, NOW_S + 1, **DELIVERED, uid=uid)]
    write_rows(folder, rows[0])
    write_rows(folder, rows[1])
    write_rows(folder, *rows)  # merged; the small files are not deleted yet
    dropped = {"outcome": "dropped", "stage": None, "attempt": None, "duration": None}
    write_rows(folder, row(2, NOW_S + 90_000, **dropped, uid=uid))


@pytest.fixture
def made(spark, log, event):
    """A data directory with something in each table, and its tables in the catalog."""
    uid = _in_folder(log.data_dir)
    log.append(0, event("id-0"))
    log.append(0, event("id-1"))
    register(spark, log.data_dir)
    yield log.data_dir, uid
    spark.sql("DROP DATABASE distributary CASCADE")


def _in_folder(data_dir):
    paths = DataDir(data_dir)
    uid = _subscribe(sqlite_url(paths.state_db), Keys(paths.key_file()))
    paths.delivery_db(1).parent.mkdir(parents=True)
    store = DeliveryStore(sqlite_url(paths.delivery_db(1)), 1)
    store.apply(Changes(dead_letters=[_letter(uid)]))
    store.close()
    _history(paths.history, uid)
    return uid


def _shared(place, folder):
    """The same in a database and a folder that nodes share."""
    url = database_url(place)
    uid = _subscribe(url, Keys(folder / "credentials.key"))
    writer = database.open_writer(url, "delivery store")
    prepare_outcomes(writer)
    writer.dispose()
    ownership = PostgresOwnership(url, PartitionFence(1, 1, "token"), None)
    ownership.flush(Batch(Mark(0, 0), changes=Changes(dead_letters=[_letter(uid)])))
    ownership.close()
    _history(folder / "history", uid)
    return uid


@pytest.fixture
def anywhere(  # noqa: PLR0917 - fixtures
    spark, any_log, event, request, node_settings, tmp_path
):
    """The same tables, of a data directory and of several nodes; gives the uid."""
    any_log.append(0, event("id-0"))
    any_log.append(0, event("id-1"))
    if "path" in any_log.options:
        uid = _in_folder(any_log.data_dir)
        register(spark, any_log.data_dir)
    else:
        place = request.getfixturevalue("postgres_place")
        uid = _shared(place, tmp_path)
        register(spark, options={"settings": node_settings(any_log, place, tmp_path)})
    yield uid
    spark.sql("DROP DATABASE distributary CASCADE")


def _all(frame):
    return [each.asDict() for each in frame.collect()]


def test_each_table_has_its_rows_and_they_join(spark, anywhere):
    """Keys lead from an outcome to its event and its subscription; no secret is shown."""
    uid = anywhere
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


def _blocks():
    """Of the guide: three of a data directory, two of nodes."""
    found = re.findall(
        r"^```python run-spark\n(.*?)^```$", GUIDE.read_text("utf-8"), re.MULTILINE | re.DOTALL
    )
    assert len(found) == 5
    return found


def test_the_guide_names_the_places_of_nodes(  # noqa: PLR0917 - fixtures
    spark, topic_log, postgres_place, node_settings, tmp_path, event
):
    """A settings file brings all tables, the log alone the events."""
    log = topic_log
    log.append(0, event("id-0"))
    _shared(postgres_place, tmp_path)
    namespace = {
        "spark": spark,
        "distributary": distributary,
        "settings_file": node_settings(log, postgres_place, tmp_path),
        "log_url": log.options["log"],
        "user": log.options["logUser"],
        "password_file": log.options["logPasswordFrom"].removeprefix("file:"),
    }
    tables = []
    for block in _blocks()[3:]:
        exec(compile(block, "guide", "exec"), namespace)
        listed = spark.catalog.listTables("distributary")
        tables.append(sum(not table.isTemporary for table in listed))
        assert [row.id for row in spark.table("distributary.events").collect()] == ["id-0"]
    assert tables == [5, 1]
    spark.sql("DROP DATABASE distributary CASCADE")


@pytest.mark.usefixtures("anywhere")
def test_no_password_stands_in_a_plan_or_in_the_catalog(spark):
    """Options name where passwords are; the tasks get them, and nobody sees them."""
    shown = io.StringIO()
    for table in ("events", "dead_letters", "subscriptions", "outcomes"):
        frame = spark.table(f"distributary.{table}")
        with contextlib.redirect_stdout(shown):
            frame.explain("extended")
            spark.sql(f"DESCRIBE EXTENDED distributary.{table}").show(100, truncate=False)
            spark.sql(f"SHOW CREATE TABLE distributary.{table}").show(truncate=False)
        shown.write(frame.schema.json())
        shown.write(frame._jdf.queryExecution().toString())
    assert "distributary.events" in shown.getvalue()
    assert PASSWORD not in shown.getvalue()


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
    """Every query of the guide, of a data directory."""
    data_dir, _ = made
    namespace = {"spark": spark, "data_dir": str(data_dir)}
    for block in _blocks()[:3]:
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
CREATE TABLE shared USING distributary OPTIONS (
    log '{log}', logSasl '{logSasl}', logUser '{logUser}', logPasswordFrom '{logPasswordFrom}');
SELECT type, count(*) FROM shared WHERE subject LIKE 'a%' GROUP BY type ORDER BY type;
EXPLAIN FORMATTED SELECT id FROM shared WHERE type = 't' AND logged_at >= '2023-01-01';
"""


def test_the_shell_of_sparks_sql_has_the_tables(spark, made, topic_log, event, tmp_path):
    """Without a line of Python, of a folder and of a topic: the package is found by name."""
    data_dir, _ = made
    topic_log.append(0, event("a", subject="a1"), event("b", subject="b"))
    topic_log.append(1, event("c", subject="a2"), event("d", type="u", subject="a"))
    shell = Path(pyspark.__file__).parent / "bin" / "spark-sql"
    statements = tmp_path / "statements.sql"
    statements.write_text(SHELL.format(data_dir=data_dir, **topic_log.options))
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
        env=short_jvm.environ(),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    *rows, plan = ran.stdout.split("\n", 3)
    assert rows == ["id-1\tdelivered", "t\t2", "u\t1"]
    assert "EqualTo(type,t)" in plan
    assert "GreaterThanOrEqual(logged_at," in plan
    assert PASSWORD not in ran.stdout + ran.stderr
