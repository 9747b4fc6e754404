"""Publish an alert when a card pays in three countries within ten minutes.

Each event of the type ``com.example.payment`` has a card, an amount and a country. Spark keeps the
latest payments of each card as state, which survives restarts of this job, and forgets a card that
has not paid for ten minutes.
"""

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pandas as pd
from pyspark.sql.streaming.state import GroupStateTimeout
from session import open_session, publish, stream_arguments

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.state import GroupState

PAYMENT = "card STRING, amount DOUBLE, country STRING"
ALERT = "id STRING, source STRING, type STRING, subject STRING, data STRING"
WITHIN_S = 600
COUNTRIES = 3


def alerts(payments: "DataFrame") -> "DataFrame":
    """Returns the events to publish for *payments*, rows of the format."""
    read = payments.where("type = 'com.example.payment'").selectExpr(
        "id",
        "unix_millis(coalesce(time, logged_at)) / 1000 AS paid",
        "logged_at",
        f"from_json(cast(data AS STRING), '{PAYMENT}') AS payment",
    )
    by_card = read.selectExpr("id", "paid", "logged_at", "payment.*").where("card IS NOT NULL")
    return (
        by_card.withWatermark("logged_at", "1 minute")
        .groupBy("card")
        .applyInPandasWithState(
            look, ALERT, "payments STRING", "append", GroupStateTimeout.EventTimeTimeout
        )
    )


def look(
    key: tuple[str], batches: Iterator[pd.DataFrame], state: "GroupState"
) -> Iterator[pd.DataFrame]:
    """Take the new payments of one card; yields an alert for the one that is one too many."""
    if state.hasTimedOut:
        state.remove()
        return
    (card,) = key
    kept: list[list[Any]] = json.loads(state.get[0]) if state.exists else []
    rows = [row for batch in batches for row in batch.itertuples()]
    found = []
    for row in sorted(rows, key=lambda row: row.paid):
        before = {country for _, country in kept}
        kept = [each for each in [*kept, [row.paid, row.country]] if row.paid - each[0] < WITHIN_S]
        countries = sorted({country for _, country in kept})
        if len(countries) >= COUNTRIES and row.country not in before:
            told = json.dumps({"card": card, "countries": countries, "payment": row.id})
            found.append((f"{card} {row.id}", "/fraud", "com.example.alert", card, told))
    state.update((json.dumps(kept),))
    forget_ms = int(max(row.logged_at.timestamp() for row in rows) + WITHIN_S) * 1000
    state.setTimeoutTimestamp(max(forget_ms, state.getCurrentWatermarkMs() + 1))
    yield pd.DataFrame(found, columns=["id", "source", "type", "subject", "data"])


def main() -> None:
    """Run the job."""
    parsed = stream_arguments(__doc__).parse_args()
    spark = open_session("find fraud")
    payments = spark.readStream.format("distributary").load(parsed.data_dir)
    publish(alerts(payments), parsed).awaitTermination()


if __name__ == "__main__":
    main()
