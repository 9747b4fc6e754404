"""The delivery protocols that are there, and how they are found."""

import importlib.metadata
import tomllib
from pathlib import Path

import pytest

from distributary.core import protocol as _protocol
from distributary.core.policy import Decision, acknowledgement_rules
from distributary.core.protocol import load, protocols

ROOT = Path(__file__).parents[3]


def test_every_protocol_of_the_project_is_found() -> None:
    """Names are in capitals and in order."""
    assert list(protocols()) == ["AMQP", "HTTP", "KAFKA", "MQTT3", "MQTT5", "NATS"]


def test_every_folder_is_declared_as_other_packages_declare_theirs() -> None:
    """An installation made today names all of them."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    folders = [path.parent for path in ROOT.glob("src/distributary/protocols/*/__init__.py")]
    assert declared["distributary.protocols"] == {
        folder.name: f"distributary.protocols.{folder.name}:PROTOCOLS" for folder in folders
    }


def test_an_installation_of_before_finds_the_folders_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Metadata of an editable install are as old as the install."""
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda **_: ())
    assert protocols.__wrapped__() == protocols()


def test_two_protocols_of_one_name_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither of two packages is given the deliveries of the other."""
    monkeypatch.setattr(_protocol, "load", lambda _: (protocols()["HTTP"],))
    with pytest.raises(ValueError, match="there is a delivery protocol HTTP already"):
        protocols.__wrapped__()


@pytest.mark.parametrize("name", protocols())
def test_what_a_protocol_names_is_there(name: str) -> None:
    """A sink, a table with a row for the rest, a consumer."""
    protocol = protocols()[name]
    assert callable(load(protocol.sink))
    if protocol.answers is not None:
        rules = acknowledgement_rules(name)
        assert "other" in rules
        assert {rule.decision for rule in rules.values()} >= {Decision.DELIVERED, Decision.RETRY}
        assert len(rules) == len(load(protocol.answers))
    if protocol.reading is not None:
        assert callable(load(protocol.reading.consumer))
