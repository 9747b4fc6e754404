"""The guide for authors of protocols has what the kit has."""

import dataclasses
import re
from pathlib import Path

from distributary.protocols import kit
from distributary.protocols.kit import Protocol

GUIDE = (Path(__file__).parents[2] / "docs/how-to/add-a-protocol.md").read_text("utf-8")


def test_the_table_has_every_member_of_a_descriptor():
    """And no other."""
    _, table = GUIDE.split("| `Protocol` | meaning |\n")
    rows = table.partition("\n\n")[0].splitlines()[1:]
    named = [name for row in rows for name in re.findall(r"`(\w+)`", row.split("|")[1])]
    assert sorted(named) == sorted(field.name for field in dataclasses.fields(Protocol))


def test_every_name_that_a_protocol_needs_is_in_the_kit():
    """A guide that tells of a class which nobody can import helps nobody."""
    named = set(re.findall(r"`([A-Z]\w*[a-z]\w*)\b[^`]*`", GUIDE))
    assert {"Protocol", "BrokerSession", "SinkSettings"} <= named
    assert named <= set(kit.__all__)
