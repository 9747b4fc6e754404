"""Spark: the streaming query that delivers, and the public format ``distributary``.

The only folder that imports pyspark. Callers: ``server`` (starts the query) and users of the
format. Hides: Spark's data source classes, its session, its Java.

``register`` imports pyspark only when called: processes that never start Spark look for Java, and
must do so quickly.
"""

from typing import TYPE_CHECKING

from distributary.spark.java import JavaHome, find_java, java_environment
from distributary.spark.master import check_master

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["JavaHome", "check_master", "find_java", "java_environment", "register"]


def register(spark: "SparkSession") -> None:
    """Register the format ``distributary`` with *spark*, for batch and streaming reads.

    Runs on the driver. The Python workers must be able to import the package too.
    """
    from distributary.spark.format import DistributarySource  # noqa: PLC0415 - see the module

    spark.dataSource.register(DistributarySource)
