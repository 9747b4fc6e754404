"""Settings of the index of event ids, and of the archive of the log. Part of ``Settings``."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from distributary.server.settings import _shapes as shapes
from distributary.server.settings._shapes import setting


@dataclass(frozen=True, kw_only=True)
class ArchiveSettings:
    """How events are found, and where old ones go. Plain and picklable."""

    event_index: Literal["on", "off"] = setting(
        shapes.one_of("on", "off"),
        "on",
        "Whether ids of events are indexed, so that an event is found by its id at once: 8 bytes of"
        " disk an event. Without it a search reads the log.",
    )
    event_index_age_max_s: float = setting(
        shapes.duration(3600.0, 3650 * 86400.0),
        3650 * 86400.0,
        "Age of events above which they are not in the index. It never holds more than the log.",
    )
    archive: str = setting(
        shapes.SettingShape(
            "an absolute path such as /mnt/archive, or the URL of a folder that Spark can write,"
            " such as s3a://bucket/archive, without a password",
            shapes.parse_history,
        ),
        "",
        "Folder that distributary archive writes to: retention deletes only what is archived there"
        " and checked. Empty: it waits for no archive.",
    )
    archive_every_s: float = setting(
        shapes.duration(0.0, 30 * 86400.0),
        0.0,
        "How often the server archives by itself what is not archived yet, with a Spark of its own"
        " (1 GiB) at the lowest priority. 0: run distributary archive by a timer.",
    )
    archive_age_max_s: float = setting(
        shapes.duration(0.0, 3650 * 86400.0),
        0.0,
        "Age above which whole days are deleted of the archive, when the server archives the next"
        " segment. 0: never.",
    )


def archive_faults(chosen: Mapping[str, Any]) -> Iterator[str]:
    """Yields why the log cannot be archived.

    Args:
        chosen: Valid values by setting; one that is not there has its default.
    """
    archive = chosen.get("archive")
    if not archive:
        if chosen.get("archive_every_s"):
            yield "archive_every_s: needs archive, the folder"
        if chosen.get("archive_age_max_s"):
            yield "archive_age_max_s: needs archive, the folder"
        return
    if chosen.get("log"):
        # Nobody is the one node that archives, and its files have to lie where all nodes see them.
        for name in ("archive_every_s", "archive_age_max_s"):
            if chosen.get(name):
                yield f"{name}: with log, run distributary archive by a timer"
    if not archive.startswith("/") and ":/" not in archive:
        yield "archive: give an absolute path, or a URL"
