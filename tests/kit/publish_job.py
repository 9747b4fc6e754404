"""A Spark job that publishes so many rows, for tests that kill it. Arguments: url, rows, folder."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from distributary.spark import find_java, java_environment, register

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def publish(spark: "SparkSession", url: str, rows: int) -> None:
    """Publish *rows* events without a column ``id``, in four tasks, as one named run."""
    frame = spark.range(0, rows, 1, 4).selectExpr("cast(id AS string) AS subject")
    writer = frame.write.format("distributary").mode("append").option("url", url)
    writer.options(source="/killed", type="t", run="one", batchEvents=50, retries=100).save()


def _main(url: str, rows: int, folder: Path) -> None:
    os.environ.update(java_environment(find_java(os.environ), folder / "java"))
    os.environ.update(SPARK_LOCAL_IP="127.0.0.1", PYSPARK_PYTHON=sys.executable)
    from pyspark.sql import SparkSession  # noqa: PLC0415 - after Java is chosen

    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .getOrCreate()
    )
    register(spark)
    publish(spark, url, rows)
    spark.stop()


if __name__ == "__main__":
    _main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
