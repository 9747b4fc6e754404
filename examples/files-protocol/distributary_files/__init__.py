"""FILES: events are appended to a file, one line of JSON each.

The operator names the folder (``FILES_FOLDER``), a subscription the file in it: nobody who may
subscribe can write anywhere else.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from distributary.protocols.kit import (
    BrokerSettings,
    Protocol,
    Schema,
    Scheme,
    SettingFlag,
    dead_lettered,
    delivered,
    retried,
)

SETTINGS: dict[str, Schema] = {
    "name": {
        "type": "string",
        "minLength": 1,
        "maxLength": 100,
        "pattern": "^[A-Za-z0-9_-][A-Za-z0-9._-]*$",
        "description": "The file. Required where the path of the sink does not name it.",
        "x-expected": "the name of a file has letters, digits, full stops, _ and - alone",
    },
    "sync": {
        "type": "boolean",
        "default": True,
        "description": "Delivered means that the line is on disk; false: that it is written.",
    },
}


@dataclass(frozen=True, slots=True)
class FileSettings(BrokerSettings):
    """The settings of one subscription, with every default."""

    name: str
    sync: bool

    @property
    def place(self) -> str:
        """Files wait for each other no more than sinks do."""
        return self.name


def restore(realized: Mapping[str, Any]) -> FileSettings:
    """The settings as they are kept, typed."""
    return FileSettings(realized["name"], realized["sync"])


ANSWERS = (
    delivered("written", "The line is in the file"),
    retried("ENOSPC", "The disk is full"),
    dead_lettered("EACCES", "The server may not write to this file"),
    retried("other", "Another fault of the operating system"),
)

PROTOCOLS = (
    Protocol(
        name="FILES",
        title="Files",
        schemes={"file": Scheme(0, path="place")},
        hosts_max=0,
        sink="distributary_files.sink:make",
        answers="distributary_files:ANSWERS",
        settings=SETTINGS,
        restore=restore,
        placed="name",
        formats=("structured",),
        flags={"--file-name": SettingFlag("name", "File to append to")},
        absent=None if "FILES_FOLDER" in os.environ else "needs a folder in FILES_FOLDER",
    ),
)
