"""Brings format and functions to a session, and its tables into the session's catalog.

Called by ``register``. A table in a catalog keeps its options with its columns (``_schema``).
"""

import os
from collections.abc import Mapping

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from distributary.core.errors import SettingsError
from distributary.spark import _schema
from distributary.spark._options import TABLES, tables_of
from distributary.spark.format import DistributarySource
from distributary.spark.functions import register_functions

DATABASE = "distributary"
"""Database of the tables that ``register`` makes."""

_PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


def bring_format(spark: SparkSession) -> None:
    """Register format and functions with *spark*, unless Spark has found the format by itself."""
    spark.conf.set(_PUSHDOWN, "true")
    register_functions(spark)
    try:
        spark.dataSource.register(DistributarySource)
    except AnalysisException as error:
        if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise


def make_tables(
    spark: SparkSession,
    path: str | os.PathLike[str] | None,
    archive: str = "",
    options: Mapping[str, str] | None = None,
) -> None:
    """Make the tables of a server; tables of another one are replaced.

    Args:
        spark: The session.
        path: Its data directory; None: *options* say where the tables lie.
        archive: Path or URL of the archive of its log; empty: none.
        options: Of each table. A table that lies at none of these places is not made.

    Raises:
        SettingsError: Somebody else's table has the name of one, or *options* cannot be used.
    """
    places = dict(options or {})
    if path is not None:
        places["path"] = os.fspath(path)
    for name in ("path", "settings"):  # the catalog may be read from another folder
        if name in places:
            places[name] = os.path.abspath(places[name])  # noqa: PTH100 - resolves no links
    made = tables_of(places)
    spark.sql(f"CREATE DATABASE IF NOT EXISTS {DATABASE}")
    for table in TABLES:
        name = f"{DATABASE}.{table}"
        if spark.catalog.tableExists(name):
            _drop(spark, name)
        if table not in made:
            continue
        given = {**places, "table": table}
        if archive and table == "events":
            given["archive"] = archive
        listed = ", ".join(f"{option} {_quoted(value)}" for option, value in given.items())
        spark.sql(f"CREATE TABLE {name} USING distributary OPTIONS ({listed})")


def _drop(spark: SparkSession, name: str) -> None:
    """Drop the table *name* if it is one of ours; its files stay."""
    if _schema.kept_options(spark.table(name).schema) is None:
        raise SettingsError(f"{name} is a table that distributary did not make; drop it first")
    spark.sql(f"DROP TABLE {name}")


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
