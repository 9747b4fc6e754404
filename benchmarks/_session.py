"""A session of Spark with two cores, for benchmarks of what its users do."""

import os
import sys

from distributary.spark import find_java, java_environment, register


def session(folder):
    """The session, with its files in *folder*."""
    for name, value in java_environment(find_java(os.environ), folder / "java").items():
        os.environ[name] = value
    os.environ.update(SPARK_LOCAL_IP="127.0.0.1", PYSPARK_PYTHON=sys.executable)
    from pyspark.sql import SparkSession  # noqa: PLC0415 - after Java is chosen

    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.log.level", "ERROR")
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .getOrCreate()
    )
    register(spark)
    return spark
