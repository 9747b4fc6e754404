"""Checks Spark's checkpoint before every start, and sets a damaged one aside.

Spark never syncs these files on a local disk, and a last file of length zero keeps a query from
ever starting again. Progress is in our own committed offset, so the checkpoint is scratch: a
damaged one is not repaired but moved away, with the reason, and Spark begins a new one.
"""

import json
import shutil
from pathlib import Path

KEPT_DAMAGED = 3
"""Damaged checkpoints that are kept for inspection; older ones are deleted."""


def damage_in(folder: Path) -> str | None:
    """Returns what is wrong with the checkpoint in *folder*; None if no known damage is found.

    A missing or empty folder is fine: a checkpoint not yet begun.
    """
    if not folder.exists() or not any(folder.iterdir()):
        return None
    return _metadata_damage(folder) or _entries_damage(folder)


def _metadata_damage(folder: Path) -> str | None:
    metadata = folder / "metadata"
    try:
        content = json.loads(metadata.read_bytes())
    except FileNotFoundError:
        return "metadata is missing"
    except (OSError, ValueError) as error:
        return f"metadata cannot be read: {error}"
    if not isinstance(content, dict) or not isinstance(content.get("id"), str):
        return "metadata holds no query id"
    return None


def _entries_damage(folder: Path) -> str | None:
    newest: dict[str, int] = {}
    for name in ("offsets", "commits"):
        for path in sorted((folder / name).glob("*")):
            if not path.name.isdigit():
                continue
            lines = path.read_bytes().split(b"\n")
            if lines[0] != b"v1" or len(lines) < 2 or not lines[1].strip():
                return f"{name}/{path.name} is not whole"
            if name == "offsets" and not _is_epoch(lines):
                return f"{name}/{path.name} holds no epoch"
            newest[name] = max(newest.get(name, -1), int(path.name))
    if "commits" in newest and newest["commits"] > newest.get("offsets", -1):
        return f"commits/{newest['commits']} has no offsets"
    return None


def _is_epoch(lines: list[bytes]) -> bool:
    try:
        offset = json.loads(lines[-1] or lines[-2])
    except ValueError:
        return False
    return isinstance(offset, dict) and isinstance(offset.get("offset"), int)


def prepare(folder: Path, partitions: int) -> str | None:
    """Make *folder* usable for a start. Returns why its checkpoint was set aside, or None.

    Args:
        folder: The checkpoint.
        partitions: How many tasks an epoch has. Spark repeats the epoch that was under way as it
            was: with fewer, some partitions would have no task, and the epoch would never end.
    """
    note = folder.with_name(f"{folder.name}.partitions")
    reason = damage_in(folder) or _of_others(note, partitions)
    if reason is not None:
        set_aside(folder)
    folder.mkdir(parents=True, exist_ok=True)
    note.write_text(f"{partitions}\n")
    return reason


def _of_others(note: Path, partitions: int) -> str | None:
    """Says where the checkpoint was begun with another number of partitions."""
    try:
        before = note.read_text().strip()
    except FileNotFoundError:
        return None
    return None if before == str(partitions) else f"it is of {before} partitions"


def set_aside(folder: Path) -> None:
    """Move the checkpoint away, so that the next start begins a new one."""
    oldest = folder.with_name(f"{folder.name}.damaged.{KEPT_DAMAGED}")
    if oldest.exists():
        shutil.rmtree(oldest)
    for number in range(KEPT_DAMAGED - 1, 0, -1):
        path = folder.with_name(f"{folder.name}.damaged.{number}")
        if path.exists():
            path.rename(folder.with_name(f"{folder.name}.damaged.{number + 1}"))
    if folder.exists():
        folder.rename(folder.with_name(f"{folder.name}.damaged.1"))
