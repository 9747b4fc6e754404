"""Settings of what is kept, and for how long. Part of ``Settings``."""

from dataclasses import dataclass
from typing import Final

from distributary.server.settings import _shapes as shapes
from distributary.server.settings._shapes import Reload, setting

RETENTION_AGE_S_DEFAULT: Final = 7 * 86400.0
"""A week: a subscriber that fails on Friday night is mended on Monday, and replayed to."""


@dataclass(frozen=True, kw_only=True)
class KeepingSettings:
    """What becomes of the log, of dead letters and of the history. Plain and picklable."""

    retention_bytes_max: int = setting(
        shapes.size(shapes.MIB, 1024 * 1024 * shapes.GIB),
        10 * shapes.GIB,
        "Size of the log above which the oldest segments are deleted, once every route is past"
        " them.",
    )
    retention_age_max_s: float = setting(
        shapes.duration(60, 3650 * 86400),
        RETENTION_AGE_S_DEFAULT,
        "Age above which segments are deleted, once every route is past them.",
    )
    disk_free_bytes_min: int = setting(
        shapes.size(0, 1024 * shapes.GIB),
        256 * shapes.MIB,
        "Disk watermark: with less free space, publishing is answered 503 until there is more.",
        reload=Reload.AT_ONCE,
    )
    lag_bytes_max: int = setting(
        shapes.size(0, 1024 * 1024 * shapes.GIB),
        0,
        "Size of the log that subscriptions with a backlog may keep from deletion; beyond it their"
        " oldest matches are given up, with a warning and a count. 0 sets no limit.",
    )
    lag_age_max_s: float = setting(
        shapes.duration(0, 3650 * 86400),
        0.0,
        "Age of events above which subscriptions with a backlog give them up, likewise. 0 sets no"
        " limit.",
    )
    dead_letter_bytes_max: int = setting(
        shapes.size(shapes.MIB, 1024 * shapes.GIB),
        2 * shapes.GIB,
        "Total size of dead letters kept because no sink accepted them; beyond it the oldest"
        " are given up, with a warning and a count.",
    )
    dead_letter_route_bytes_max: int = setting(
        shapes.size(shapes.MIB, 1024 * shapes.GIB),
        256 * shapes.MIB,
        "The same for one subscription. Each partition keeps its share of both.",
    )
    dead_letter_age_max_s: float = setting(
        shapes.duration(60, 3650 * 86400),
        30 * 86400.0,
        "Age at which kept dead letters are given up, with a warning and a count.",
    )
    history: str = setting(
        shapes.SettingShape(
            "off, a path such as /mnt/history, or the URL of a folder that Spark can write, such as"
            " s3a://bucket/history, without a password",
            shapes.parse_history,
        ),
        "",
        "Folder of the history (what became of each match), for this server alone; empty is history"
        " in the data folder, off keeps none. The options of a file system are Spark's, such as"
        " spark.hadoop.fs.s3a.endpoint in spark_conf.",
    )
    history_age_max_s: float = setting(
        shapes.duration(3600, 3650 * 86400),
        7 * 86400.0,
        "Age above which history files are deleted.",
    )
    history_bytes_max: int = setting(
        shapes.size(0, 1024 * 1024 * shapes.GIB),
        shapes.GIB,
        "Size of the history above which its oldest files are deleted. 0 sets no limit.",
    )
