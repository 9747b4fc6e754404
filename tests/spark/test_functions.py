"""Filters of subscriptions as functions, on DataFrames and in SQL."""

import re
import time
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql.functions import length

from distributary.core.errors import ResourceError
from distributary.spark.functions import cesql, matches

GUIDE = Path(__file__).parents[2] / "docs" / "how-to" / "try-a-filter.md"


@pytest.fixture
def events(spark, log, event):
    """Three events, with extensions and without."""
    log.append(0, event("a", type="com.order", subject="x"), event("b", type="org.order", rank=7))
    log.append(1, event("c", type="com.bill", rank=12, time="2026-01-31T12:00:00Z"))
    return spark.read.format("distributary").load(str(log.data_dir))


@pytest.mark.parametrize(
    ("wanted", "ids"),
    [
        pytest.param([], "abc", id="everything"),
        pytest.param([{"prefix": {"type": "com."}}], "ac", id="one-column"),
        pytest.param([{"exact": {"rank": "7"}}], "b", id="extension"),
        pytest.param([{"sql": "EXISTS rank AND rank > 10"}], "c", id="sql"),
        pytest.param([{"prefix": {"time": "2026-01-31T12"}}], "c", id="time"),
        pytest.param({"source": "/s", "types": ["com.order", "org.order"]}, "ab", id="members"),
        pytest.param({"sink": "x", "filters": [{"suffix": {"type": "bill"}}]}, "c", id="whole"),
    ],
)
def test_the_events_of_a_subscription_are_chosen(events, wanted, ids):
    """By the filters that it would have."""
    found = events.where(matches(wanted)).select("id").orderBy("id").collect()
    assert "".join(row.id for row in found) == ids


def test_they_work_in_sql_and_in_one_expression_with_others(spark, events):
    """Also where the session found the format by itself."""
    events.createOrReplaceTempView("some_events")
    found = spark.sql("""
        SELECT id, cesql('type LIKE ''com%''', struct(e.*)) AS com FROM some_events e
        WHERE matches('[{"suffix": {"type": "order"}}]', struct(type)) ORDER BY id
    """)
    assert [tuple(row) for row in found.collect()] == [("a", True), ("b", False)]
    both = events.where(cesql("EXISTS rank") & (length("id") == 1) & (events.id != "c"))
    assert [row.id for row in both.collect()] == ["b"]


def test_a_wrong_filter_has_the_faults_of_a_subscription(spark, events):
    """At once on a DataFrame; in SQL with the first row."""
    with pytest.raises(ResourceError) as caught:
        matches([{"prefix": {"type": 7}}, {"sql": "type ="}])
    assert [fault.path for fault in caught.value.faults] == [
        "$.filters[0].prefix.type",
        "$.filters[1].sql",
    ]
    with pytest.raises(ResourceError, match=r"\$\.types"):
        matches({"types": "a"})
    events.createOrReplaceTempView("some_events")
    with pytest.raises(PySparkException, match=r"\$\.filters\[0\]\.sql"):
        spark.sql("SELECT cesql('type =', struct(type)) FROM some_events").collect()


def test_the_example_of_the_guide_runs(spark, log, event):
    """And chooses what it says."""
    log.append(0, event("a", type="com.example.order"))  # stored years ago
    log.clock.now_ms = int(time.time() * 1000)
    log.append(1, event("b", type="com.example.order", subject="x"), event("c", type="org.order"))
    (block,) = re.findall(
        r"^```python run-spark\n(.*?)^```$", GUIDE.read_text("utf-8"), re.MULTILINE | re.DOTALL
    )
    namespace = {"spark": spark, "data_dir": str(log.data_dir)}
    exec(compile(block, "guide", "exec"), namespace)
    assert [row.id for row in namespace["week"].orderBy("id").collect()] == ["b", "c"]
