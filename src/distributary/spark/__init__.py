"""Spark: the streaming query that delivers, and the public format ``distributary``.

The only folder that imports pyspark. Callers: ``server`` (starts the query) and users of the
format. Hides: Spark's data source classes, its session, its Java.

``register`` imports pyspark only when called: processes that never start Spark look for Java, and
must do so quickly.
"""

import os
from collections.abc import Mapping
from os import PathLike
from typing import TYPE_CHECKING

from distributary.spark.class_archive import make as make_class_archive
from distributary.spark.class_archive import usable as usable_class_archive
from distributary.spark.driver_settings import DriverSettings, Withheld
from distributary.spark.java import JavaHome, find_java, java_environment
from distributary.spark.master import check_master

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = [
    "DriverSettings",
    "JavaHome",
    "Withheld",
    "check_master",
    "find_java",
    "java_environment",
    "make_class_archive",
    "register",
    "usable_class_archive",
]


def register(
    spark: "SparkSession",
    path: "str | PathLike[str] | None" = None,
    *,
    archive: "str | PathLike[str]" = "",
    options: "Mapping[str, str] | None" = None,
) -> None:
    """Register the format ``distributary`` with *spark*, and let it push conditions down.

    Sets ``spark.sql.python.filterPushdown.enabled`` in this session. Runs on the driver; the Python
    workers must be able to import the package too.

    Args:
        spark: The session.
        path: A data directory, of which to make tables in the database ``distributary``:
            ``SELECT * FROM distributary.events``. None: make none.
        archive: Path or URL of the archive of its log, which ``distributary.events`` then shows
            too; empty: none.
        options: Instead of *path*: options of the format that say where the tables of several nodes
            lie, such as ``{"settings": "/etc/distributary/distributary.toml"}``, or ``log``,
            ``store`` and ``history``. A table that none of them names is not made.

    Raises:
        SettingsError: *path* or *options* cannot be used, or a table of that name is somebody
            else's.
    """
    from distributary.spark import catalog  # noqa: PLC0415 - see the module

    catalog.bring_format(spark)
    if path is not None or options:
        catalog.make_tables(spark, path, os.fspath(archive), options)
