"""The archive: events of old segments as Parquet by day, wherever Spark writes.

::

    PATH/manifests/00000001.json                    what is archived: nothing else counts
    PATH/events/day=2026-11-24/range=p0000-…/….parquet

A *range* is a stretch of records of one partition. Its files lie in a folder for each day, with a
name that no other attempt uses. They count from the moment in which a manifest names them, which
is written last, after they were read back. Files that no manifest names are left-overs of a killed
job: nobody reads them, and the next job deletes them.

``manifest`` is pure; ``job`` writes, in a Spark driver; ``reading`` reads, in Python workers.
``rows`` has the columns. Callers: ``server`` (the command, and the setting ``archive``), and
``format`` (the option ``archive``).
"""
