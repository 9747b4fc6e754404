"""A hook of the build: the long description, and the addresses of the project.

An index shows the long description of a package away from the repository, so a relative link in it
would lead nowhere. Where ``BUILD_SOURCE_URL`` has the address of the repository's files at this
version (``https://HOST/PROJECT/blob/v0.1.0``), links become absolute and the package names its
addresses. Otherwise links become text: a wheel that names an address which nobody has
set up would be worse than one that names none. Why: docs/decisions/0092-two-installations.md.
"""

import os
import re
from pathlib import Path

from hatchling.metadata.plugin.interface import MetadataHookInterface

VARIABLE = "BUILD_SOURCE_URL"

_LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")
_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def long_description(text: str, base: str) -> str:
    """*text* with no relative link left: absolute below *base*, or plain text where it is empty."""

    def resolved(found: re.Match[str]) -> str:
        image, label, target = found.groups()
        if re.match(r"[a-z]+:", target):
            return found[0]
        if base:
            where = base.replace("/blob/", "/raw/") if image else base
            page = f"README.md{target}" if target.startswith("#") else target
            return f"{image}[{label}]({where}/{page})"
        return label

    kept = _FENCE.findall(text)
    parts = [_LINK.sub(resolved, part) for part in _FENCE.split(text)]
    return "".join(part + fence for part, fence in zip(parts, [*kept, ""], strict=True))


def addresses(base: str) -> dict[str, str]:
    """The project's addresses below *base*; none where it is empty."""
    if not base:
        return {}
    pages = {"Documentation": "docs/README.md", "Changelog": "CHANGELOG.md"}
    return {"Source": base, **{name: f"{base}/{page}" for name, page in pages.items()}}


def source_url() -> str:
    """What the build was told, without a slash at its end; empty: nothing.

    Raises:
        ValueError: It is no plain https address: it would be in every installed package.
    """
    base = os.environ.get(VARIABLE, "").rstrip("/")
    if base and not re.fullmatch(r"https://[a-z0-9.-]+(/[\w.~-]+)+", base):
        raise ValueError(
            f"{VARIABLE}: expected an address such as https://HOST/PROJECT/blob/v0.1.0, without"
            f" user, query and fragment; got {base!r}"
        )
    return base


class MetadataHook(MetadataHookInterface):
    """Adds ``readme`` and ``urls`` to the metadata."""

    def update(self, metadata: dict[str, object]) -> None:
        """Add them to *metadata*."""
        base = source_url()
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {
            "content-type": "text/markdown",
            "text": long_description(text, base),
        }
        metadata["urls"] = addresses(base)
