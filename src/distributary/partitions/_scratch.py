"""A private folder on the machine of an executor, for what need not be kept: made and removed.

Spark gives each application folders on an executor's machine and removes them with it. Ours is in
one of these, for one executor; the next executor there removes what a killed one left. Nothing in
it is needed by anybody else.
"""

import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

PREFIX: Final = "distributary-"
GIVEN_BY: Final = ("SPARK_EXECUTOR_DIRS", "LOCAL_DIRS", "SPARK_LOCAL_DIRS")
"""Variables with the folders of an application: standalone, YARN, Kubernetes."""


def make_scratch(jvm_pid: int, environ: Mapping[str, str] = os.environ) -> Path:
    """Returns the folder of the executor *jvm_pid*, made; removes those of executors that ended.

    Raises:
        OSError: It cannot be made, or is not ours alone.
    """
    base = _base(environ)
    folder = base / f"{PREFIX}{os.getuid()}-{jvm_pid}"
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if found.st_uid != os.getuid() or found.st_mode & 0o077 or folder.is_symlink():
        raise PermissionError(f"{folder} is not ours alone")
    for other in base.glob(f"{PREFIX}{os.getuid()}-*"):
        pid = other.name.rpartition("-")[2]
        if other != folder and pid.isdecimal() and not _runs(int(pid)):
            shutil.rmtree(other, ignore_errors=True)
    return folder


def _base(environ: Mapping[str, str]) -> Path:
    for name in GIVEN_BY:
        for folder in environ.get(name, "").replace(os.pathsep, ",").split(","):
            if folder and os.access(folder, os.W_OK | os.X_OK):
                return Path(folder)
    return Path(tempfile.gettempdir())


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
