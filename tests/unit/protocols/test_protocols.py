"""The delivery protocols that are there, and how they are found."""

import dataclasses
import importlib.metadata
import sys
import types

import pytest

from distributary.core import protocol as _protocol
from distributary.core.policy import Decision, acknowledgement_rules
from distributary.core.protocol import Scheme, load, protocols


def test_every_protocol_of_the_project_is_found() -> None:
    """Names are in capitals and in order."""
    assert list(protocols()) == ["AMQP", "HTTP", "KAFKA", "MQTT3", "MQTT5", "NATS"]


def test_folders_are_found_without_metadata(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers may run from an archive that has none."""
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda **_: ())
    assert _protocol._found.__wrapped__().protocols == protocols()


def test_metadata_of_an_older_version_add_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """They named the folders; an editable install keeps them."""
    value = "distributary.protocols.http:PROTOCOLS"
    entry = importlib.metadata.EntryPoint("http", value, _protocol.ENTRY_POINTS)
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda **_: (entry,))
    found = _protocol._found.__wrapped__()
    assert (found.protocols, found.refused) == (protocols(), ())


class _Package(importlib.metadata.Distribution):
    """A package that is installed, by its name."""

    def __init__(self, name):
        self._name = name

    def read_text(self, filename):
        return f"Name: {self._name}\n" if filename == "METADATA" else None

    def locate_file(self, path):
        raise NotImplementedError


def _found(monkeypatch, **declared):
    """What is found where packages (by name) declare such objects."""
    entries = [
        importlib.metadata.EntryPoint("it", f"{name}:PROTOCOLS", _protocol.ENTRY_POINTS)._for(
            _Package(name)
        )
        for name in declared
    ]
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda **_: entries)
    for name, value in declared.items():
        monkeypatch.setitem(sys.modules, name, types.SimpleNamespace(PROTOCOLS=value))
    return _protocol._found.__wrapped__()


def _named(name, **changes):
    return (dataclasses.replace(protocols()["NATS"], name=name, **changes),)


def test_two_packages_of_one_protocol_are_refused(monkeypatch) -> None:
    """Neither is given the deliveries of the other, and each refusal has both names."""
    found = _found(monkeypatch, one=_named("X"), other=_named("X"), third=_named("Y"))
    assert set(found.protocols) == {*protocols(), "Y"}
    one, other = map(str, found.refused)
    assert one.startswith("the package one cannot be used (it = one:PROTOCOLS):")
    assert one.endswith("the package other declares the protocol X, too")
    assert other.startswith("the package other cannot be used (it = other:PROTOCOLS):")
    assert other.endswith("the package one declares the protocol X, too")


def test_a_package_that_declares_one_of_ours_is_refused(monkeypatch) -> None:
    """What the project has stays as it is."""
    found = _found(monkeypatch, one=_named("HTTP"))
    assert found.protocols == protocols()
    (error,) = found.refused
    assert "distributary itself declares the protocol HTTP, too" in str(error)


def test_two_meanings_of_one_scheme_are_refused(monkeypatch) -> None:
    """A URI means one thing; the same meaning may be shared."""
    mine, theirs = {"file": Scheme(0)}, {"file": Scheme(1)}
    declared = {"one": _named("X", schemes=mine), "other": _named("Y", schemes=theirs)}
    found = _found(monkeypatch, **declared)
    assert found.protocols == protocols()
    assert ["the scheme file means something else in" in str(each) for each in found.refused] == [
        True,
        True,
    ]
    assert (
        _found(monkeypatch, one=_named("X", schemes=mine), other=_named("Y", schemes=mine)).refused
        == ()
    )


def test_what_is_no_protocol_is_refused(monkeypatch) -> None:
    """The rest goes on."""
    found = _found(monkeypatch, one="HTTP", other=_named("X"))
    assert set(found.protocols) == {*protocols(), "X"}
    (error,) = found.refused
    assert error.code == "protocol-unavailable"
    assert str(error).endswith("(it = one:PROTOCOLS): TypeError: expected a tuple of Protocol")


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
