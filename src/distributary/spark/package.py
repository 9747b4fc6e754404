"""Packs distributary for the executors of a cluster: one zip, which Python imports from.

Spark's own file server brings it to each executor before its first task, over the encrypted
connection that tasks take. So all run the version of the driver, whatever is installed there; what
distributary depends on has to be installed there, or come in an archive of Spark.

Called by ``driver``. Imports no pyspark.
"""

import py_compile
import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import distributary
from distributary.spark.cluster_conf import PACKAGE, package_wanted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STAMP: Final = (1980, 1, 1, 0, 0, 0)
"""Time of each file in it: equal sources give equal packages."""
LEFT_OUT: Final = frozenset({"cli", "knative", "server", "sources", "testing"})
"""Slices that no executor needs."""


def give_package(spark: "SparkSession", scratch: Path) -> None:
    """Bring the package to the executors of a session that has started, unless they have it.

    Args:
        spark: The session.
        scratch: Folder for the package.

    Raises:
        OSError: It cannot be written.
    """
    context = spark.sparkContext
    path = scratch / PACKAGE
    given = {name.rpartition("/")[2] for name in context.listFiles}
    if PACKAGE not in given and package_wanted(dict(context.getConf().getAll())):
        context.addFile(str(make_package(path)))


def make_package(path: Path) -> Path:
    """Write the package to *path*, in place of one before; returns *path*.

    It has the compiled modules too: an executor with the same Python starts its workers in half
    the time, and any other compiles the sources.

    Raises:
        OSError: It cannot be written.
    """
    root = Path(distributary.__file__).parent
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        made = Path(folder) / "package"
        with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as package:
            for source in sorted(root.rglob("*")):
                inside = source.relative_to(root)
                if not source.is_file() or inside.parts[0] in LEFT_OUT:
                    continue
                if inside.parts[-2:-1] == ("__pycache__",):
                    continue
                name = f"distributary/{inside.as_posix()}"
                _add(package, name, source.read_bytes())
                if source.suffix == ".py":
                    compiled = _compiled(source, name, Path(folder))
                    _add(package, f"{name}c", compiled)
        made.replace(path)
    return path


def _compiled(source: Path, name: str, folder: Path) -> bytes:
    target = folder / "module.pyc"
    unchecked = py_compile.PycInvalidationMode.UNCHECKED_HASH
    py_compile.compile(
        str(source), str(target), dfile=name, doraise=True, invalidation_mode=unchecked
    )
    return target.read_bytes()


def _add(package: zipfile.ZipFile, name: str, content: bytes) -> None:
    entry = zipfile.ZipInfo(name, STAMP)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = 0o644 << 16
    package.writestr(entry, content)
