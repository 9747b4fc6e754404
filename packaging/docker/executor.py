"""The entry point of an executor's pod: what Spark's own image does for the argument ``executor``.

Spark makes the pod and says in its environment which driver it belongs to; the pod template of the
Helm chart names this program. It becomes the JVM, so that signals reach it. Classes are those of
the package PySpark that the image has, which is the driver's version too.
"""

import os
import re
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

BACKEND = "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"
_ARGUMENTS = {
    "--driver-url": "SPARK_DRIVER_URL",
    "--executor-id": "SPARK_EXECUTOR_ID",
    "--cores": "SPARK_EXECUTOR_CORES",
    "--app-id": "SPARK_APPLICATION_ID",
    "--hostname": "SPARK_EXECUTOR_POD_IP",
    "--resourceProfileId": "SPARK_RESOURCE_PROFILE_ID",
    "--podName": "SPARK_EXECUTOR_POD_NAME",
}
_OPTION = re.compile(r"SPARK_JAVA_OPT_(\d+)")


def command(environ: Mapping[str, str], java: str, jars: Path) -> list[str]:
    """The JVM's command line.

    Args:
        environ: The environment that Spark gave to the pod.
        java: Path of Java.
        jars: Folder of Spark's classes.

    Raises:
        KeyError: Spark did not make this pod: a variable is missing.
    """
    numbered = ((_OPTION.fullmatch(name), value) for name, value in environ.items())
    options = sorted((int(found[1]), value) for found, value in numbered if found)
    places = [environ.get("SPARK_CONF_DIR", ""), environ.get("SPARK_CLASSPATH", ""), f"{jars}/*"]
    memory = environ["SPARK_EXECUTOR_MEMORY"]
    return [
        java,
        *(value for _, value in options),
        f"-Xms{memory}",
        f"-Xmx{memory}",
        "-cp",
        ":".join(place for place in places if place),
        BACKEND,
        *(word for flag, name in _ARGUMENTS.items() for word in (flag, environ[name])),
    ]


def main() -> None:
    """Become the executor; exit code 1: Spark did not make this pod, or there is no Java."""
    import pyspark  # noqa: PLC0415 - only here: tests read ``command`` without it

    home = os.environ.get("JAVA_HOME")
    java = f"{home}/bin/java" if home else shutil.which("java")
    if java is None:
        sys.exit("no Java is in this image")
    try:
        words = command(os.environ, java, Path(pyspark.__file__).parent / "jars")
    except KeyError as error:
        sys.exit(f"{error.args[0]} is not set: Spark starts this program")
    os.execv(java, words)  # noqa: S606 - no shell is wanted; the words are Spark's


if __name__ == "__main__":
    main()
