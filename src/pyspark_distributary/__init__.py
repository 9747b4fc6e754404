"""Brings the format ``distributary`` to every Spark session: Spark looks for such modules itself.

Spark 4 imports each installed module whose name begins with ``pyspark_``, and takes its
``DefaultSource``. So the format is there without ``register``, also in the ``spark-sql`` shell.
"""

from distributary.spark.format import DistributarySource as DefaultSource

__all__ = ["DefaultSource"]
