"""Settings of the processes: their stops, what they tell, and Spark. Part of ``Settings``."""

# ruff: noqa: RUF009 - ``setting`` is dataclasses.field under another name

from dataclasses import dataclass
from pathlib import Path

from distributary.server.settings import _shapes as shapes
from distributary.server.settings._shapes import Reload, setting


@dataclass(frozen=True, kw_only=True)
class RunningSettings:
    """How the processes run. Plain and picklable."""

    epoch_s: float = setting(
        shapes.duration(1, 86400),
        14400.0,
        "Length of a pipeline epoch, after which Spark reports on it; deliveries go on.",
    )
    drain_s: float = setting(
        shapes.duration(0, 600), 10.0, "Longest wait for deliveries under way at a stop."
    )
    disable_after_s: float = setting(
        shapes.duration(0, 365 * 86400),
        0.0,
        "Disable a subscription whose deliveries have failed for so long, and still fail: nothing"
        " is sent until somebody enables it. 0 disables none.",
    )
    subscription_metrics_max: int = setting(
        shapes.whole(0, 10_000),
        300,
        "Most subscriptions with metrics of their own; those of the others are summed.",
    )
    log_level: str = setting(
        shapes.one_of("debug", "info", "warning", "error"),
        "info",
        "Least level that is logged.",
        reload=Reload.AT_ONCE,
    )
    log_format: str = setting(
        shapes.one_of("auto", "console", "json"),
        "auto",
        "Shape of log lines; auto is console on a terminal and json elsewhere.",
    )
    log_attempts: str = setting(
        shapes.one_of("all", "failures", "none"),
        "all",
        "Which delivery attempts get a row in the history: failures leaves out deliveries that"
        " succeed at the first attempt, none keeps no history.",
        reload=Reload.AT_ONCE,
    )
    java_home: Path | None = setting(
        shapes.path("the path of a Java 17 (or newer) installation"),
        None,
        "Java to run Spark on; otherwise JAVA_HOME, the PATH and the usual places are searched.",
    )
    spark_master: str = setting(
        shapes.text(
            "auto, or a Spark master URL such as local[4]",
            r"local(-cluster)?(\[.+\])?|[a-z][a-z0-9+-]*(://\S+)?",
        ),
        "auto",
        "Where Spark runs. Each partition occupies a task slot while the pipeline runs; auto has"
        " one for each, on this machine. Slots may exceed the cores.",
    )
    spark_conf: dict[str, str] = setting(
        shapes.SettingShape(
            "pairs such as spark.driver.memory=1g, separated by commas", shapes.parse_table
        ),
        {},
        "Spark properties that replace ours, at your own risk.",
    )
