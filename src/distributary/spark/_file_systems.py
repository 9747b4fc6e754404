"""Opens a folder at a path or a URL for who reads it in Python, without a JVM.

Called by ``_history_tables`` and ``archive.reading``. Hides: Arrow's file systems, which have other
names for some schemes than Hadoop has.
"""

import posixpath
from typing import Final
from urllib.parse import urlsplit

import pyarrow as pa
from pyarrow import fs

_SCHEMES: Final = {"s3a": "s3", "s3n": "s3"}
"""Hadoop's name of a scheme -> Arrow's."""


def open_folder(url: str) -> tuple[fs.FileSystem, str]:
    """Returns the file system of *url*, and the path there, without a slash at its end.

    Args:
        url: A path, or a URL (``file``, ``s3a``, ``s3``, ``hdfs``, ``gs``, ``abfs``).

    Raises:
        ValueError: Python cannot read there, for the reason given.
    """
    parts = urlsplit(url)
    try:
        if parts.scheme in {"", "file"}:
            path = "/" + parts.path.lstrip("/") if parts.scheme else url
            return fs.LocalFileSystem(), posixpath.normpath(path)
        scheme = _SCHEMES.get(parts.scheme, parts.scheme)
        system, root = fs.FileSystem.from_uri(parts._replace(scheme=scheme).geturl())
    except (OSError, pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise ValueError(f"{url} cannot be opened in Python: {error}") from error
    return system, root.rstrip("/")
