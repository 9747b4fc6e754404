"""Report an hour: how many events came of each type, and what became of their matches.

Prints a table and publishes it as one event, whose id is the hour: a second run for the same hour
publishes nothing new where the server has ``once_window_s``.
"""

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from session import arguments, open_session

import distributary.spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

REPORT = """
    SELECT e.type, count(DISTINCT e.partition, e.offset, e.index) AS events,
        count_if(o.outcome = 'delivered') AS delivered,
        count_if(o.outcome = 'dead-lettered') AS dead_lettered,
        count_if(o.outcome = 'dropped') AS dropped
    FROM distributary.events e LEFT JOIN distributary.outcomes o
        ON o.partition = e.partition AND o.offset = e.offset AND o.index = e.index
        AND o.time >= :begin
    WHERE e.logged_at >= :begin AND e.logged_at < :end
        AND e.type <> 'com.example.report'
    GROUP BY e.type ORDER BY e.type
"""


def report(spark: "SparkSession", hour: datetime) -> "DataFrame":
    """Returns a row for each type of the events that were appended in the *hour* that begins."""
    return spark.sql(REPORT, args={"begin": hour, "end": hour + timedelta(hours=1)})


def main() -> None:
    """Run the job."""
    parser = arguments(__doc__)
    last = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=1)
    parser.add_argument(
        "--hour",
        type=lambda text: datetime.fromisoformat(text).astimezone(UTC),
        default=last,
        help="its beginning, such as 2026-11-24T10:00+00:00 (default: the last whole hour)",
    )
    parsed = parser.parse_args()
    spark = open_session("hourly report")
    distributary.spark.register(spark, parsed.data_dir)
    found = report(spark, parsed.hour).cache()
    found.show(truncate=False)
    hour = parsed.hour.isoformat()
    event = found.selectExpr("struct(*) AS line").groupBy().agg({"line": "collect_list"})
    (
        event.toDF("types")
        .selectExpr(f"'{hour}' AS id", f"'{hour}' AS subject", "struct(types) AS data")
        .write.format("distributary")
        .options(url=parsed.url, source="/report", type="com.example.report")
        .mode("append")
        .save()
    )


if __name__ == "__main__":
    main()
