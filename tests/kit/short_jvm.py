"""Options of Spark's JVMs that end with a test: none lives long enough to pay for fast code.

Callers: tests that start a Spark of their own, in a session or a process.
"""

import os

from distributary.spark import class_archive, find_java, usable_class_archive

__all__ = ["environ", "options"]


def options() -> tuple[str, ...]:
    """The collector and compiler that start soonest, and the archive of classes if there is one."""
    classes = class_archive.options(usable_class_archive(find_java(os.environ)))
    return ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", *classes.split())


def environ() -> dict[str, str]:
    """Our environment, with which PySpark and Spark's scripts start such a JVM."""
    return os.environ | {"SPARK_SUBMIT_OPTS": " ".join(options())}
