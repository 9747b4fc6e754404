"""The daemon that forks Spark's Python workers; preloads their imports, so that pages are shared.

Loads nothing that starts a thread of Python: threads and forks do not mix.

Workers run PySpark's loop within ours, which keeps their sessions between two tasks (``_custody``).

Spark runs it as ``python -m distributary.spark.worker_daemon pyspark.worker``
(``spark.python.daemon.module``).
"""

import contextlib
import functools
import gc
import importlib
import os
import sys

from distributary.core import lean
from distributary.core.protocol import load, protocols
from distributary.spark import _custody
from distributary.spark.cluster_conf import ON_EXECUTOR

_PRELOADED = (
    "distributary.partitions",
    "pyspark.worker",
    "distributary.spark.delivery_source",
    "distributary.spark._delivery_task",
)
_MAYBE = "pandas"
"""What PySpark's loop imports in each worker where it is installed: a second of CPU."""
_PLACES = "distributary.partitions.cluster_places"
"""What owners need where log and store are shared by machines."""


def main() -> None:
    """Preload, then run PySpark's own daemon."""
    if sys.argv[1:] == ["pyspark.worker"]:
        lean.load_logging()
        for name in _PRELOADED:
            importlib.import_module(name)
        with contextlib.suppress(ImportError):  # who needs them reports that
            if os.environ.get(ON_EXECUTOR):
                importlib.import_module(_PLACES).import_clients()
            importlib.import_module(_MAYBE)
        for protocol in protocols().values():
            with contextlib.suppress(ImportError):  # a delivery by it reports that
                load(protocol.sink)
        _keep_sessions()
        gc.collect()
        gc.freeze()  # Collections in the workers must not touch, and so copy, shared pages.
    importlib.import_module("pyspark.daemon").manager()


def _keep_sessions() -> None:
    """Have PySpark's daemon run our loop in its workers, which calls the one of PySpark."""
    worker = importlib.import_module("pyspark.worker")
    worker.main = functools.partial(_custody.serve_tasks, worker.main)  # type: ignore[attr-defined]


if __name__ == "__main__":
    main()
