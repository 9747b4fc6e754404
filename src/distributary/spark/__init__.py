"""Everything that knows Spark: the only room that imports pyspark.

Callers: ``server`` (starts the pipeline), and users of the public format ``distributary``.
Hides: Spark's data source classes, its session, its Java.

``register`` imports pyspark when it is called, not before: finding Java must work, and be
quick, in processes that never start Spark.
"""

from typing import TYPE_CHECKING

from distributary.spark.java import JavaHome, find_java, java_environment
from distributary.spark.master import check_master

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["JavaHome", "check_master", "find_java", "java_environment", "register"]


def register(spark: "SparkSession") -> None:
    """Make the format ``distributary`` known to *spark*, for batch and streaming reads.

    Runs on the driver; the package must be importable in the Python workers too.
    """
    from distributary.spark.format import DistributarySource  # noqa: PLC0415 - see the module

    spark.dataSource.register(DistributarySource)
