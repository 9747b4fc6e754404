"""JSON paths into a client's input, bounded in length."""

import json
import re
from typing import Final

NAME_CHARS_MAX: Final = 64
"""Most characters shown of a client's own name: enough to find it, useless as an amplifier."""

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def shown(name: object) -> str:
    """Return *name* for a message: quoted, escaped (no control characters in a log), cut."""
    text = str(name)
    cut = text if len(text) <= NAME_CHARS_MAX else text[:NAME_CHARS_MAX] + "..."
    return json.dumps(cut)


def member(path: str, name: object) -> str:
    """Return the path of *name* in the object at *path*: ``$.a.b``, or ``$.a["odd name"]``."""
    text = str(name)
    if len(text) <= NAME_CHARS_MAX and _PLAIN.fullmatch(text):
        return f"{path}.{text}"
    return f"{path}[{shown(text)}]"
