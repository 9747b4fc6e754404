"""Enrich orders with their customers, and publish the result.

Each event of the type ``com.example.order`` names a customer; the new event has the customer's name
and tier as well. An order of an unknown customer is published with NULL in their place.
"""

from typing import TYPE_CHECKING

from session import open_session, publish, stream_arguments

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ORDER = "number STRING, customer STRING, total DOUBLE"


def enriched(orders: "DataFrame", customers: "DataFrame") -> "DataFrame":
    """Returns the events to publish.

    Args:
        orders: Rows of the format.
        customers: ``customer``, ``name``, ``tier``.
    """
    read = orders.where("type = 'com.example.order'").selectExpr(
        "source AS order_source",
        "id AS order_id",
        "time",
        f"from_json(cast(data AS STRING), '{ORDER}') AS placed",
    )
    joined = read.join(customers, read.placed.customer == customers.customer, "left")
    return joined.selectExpr(
        # The same order gives the same id: a repeat is one event, with once_window_s.
        "concat(order_source, ' ', order_id) AS id",
        "'/enrichment' AS source",
        "'com.example.order.enriched' AS type",
        "placed.number AS subject",
        "time",
        "struct(placed.number, placed.total, placed.customer, name, tier) AS data",
    )


def main() -> None:
    """Run the job."""
    parser = stream_arguments(__doc__)
    parser.add_argument("--customers", required=True, help="CSV with customer, name and tier")
    parsed = parser.parse_args()
    spark = open_session("enrich orders")
    customers = spark.read.csv(parsed.customers, header=True)
    orders = spark.readStream.format("distributary").load(parsed.data_dir)
    publish(enriched(orders, customers), parsed).awaitTermination()


if __name__ == "__main__":
    main()
