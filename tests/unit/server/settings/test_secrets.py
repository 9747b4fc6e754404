"""Tables ``[[secrets]]``."""

import pytest

from distributary.resource import SecretFile
from distributary.server.settings import read_secrets

GOOD = {"name": "crm", "file": "/run/secrets/crm", "sinks": ["https://example.com"]}


def test_a_table_names_a_file_and_its_sinks():
    """The namespace is ``default`` unless one is named; a name is free in each."""
    tables = [GOOD, GOOD | {"namespace": "other", "sinks": ["kafka://k:9092", "https://a.example"]}]
    assert read_secrets(tables) == (
        (
            SecretFile("default", "crm", "/run/secrets/crm", ("https://example.com",)),
            SecretFile("other", "crm", "/run/secrets/crm", ("kafka://k:9092", "https://a.example")),
        ),
        [],
    )


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"name": "C"}, "name"),
        ({"name": None}, "name"),
        ({"namespace": 5}, "namespace"),
        ({"file": "canary"}, "file"),
        ({"file": "/canary\0"}, "file"),
        ({"file": None}, "file"),
        ({"sinks": []}, "sinks"),
        ({"sinks": "https://example.com"}, "sinks"),
        ({"sinks": [5]}, "sinks"),
        ({"sinks": ["https://canary/path"]}, "sinks"),
        ({"sinks": ["https://canary@example.com"]}, "sinks"),
        ({"sinks": ["https://canary:port"]}, "sinks"),
        ({"sinks": ["canary"]}, "sinks"),
        ({"sinks": ["https://canary"] * 65}, "sinks"),
        ({"value": "canary"}, "value"),
        ({"cacerts_file": "canary.pem"}, "cacerts_file"),
        ({"cacerts_file": "/canary\0"}, "cacerts_file"),
        ({"cacerts_file": ""}, "cacerts_file"),
        ({"cacerts_file": ["canary"]}, "cacerts_file"),
    ],
)
def test_a_fault_names_its_place_and_no_value(change, place):
    """People put secrets anywhere."""
    found, (fault,) = read_secrets([GOOD | change])
    assert found == ()
    assert fault.startswith(f"secrets[0].{place} (configuration file): ")
    assert "canary" not in fault


def test_a_table_may_name_certificates_that_its_sinks_are_trusted_by():
    """Owners read that file, as they read the secret."""
    (found,), faults = read_secrets([GOOD | {"cacerts_file": "/etc/own.pem"}])
    assert (found.cacerts_file, faults) == ("/etc/own.pem", [])


def test_a_name_stands_once_in_a_namespace_and_tables_are_counted():
    """Each process reads all files once a second."""
    _, (fault,) = read_secrets([GOOD, GOOD])
    assert fault.startswith("secrets[1].name (configuration file): ")
    tables = [GOOD | {"name": f"a{number}"} for number in range(257)]
    assert read_secrets(tables[:256])[1] == []
    assert read_secrets(tables)[1] == ["secrets (configuration file): at most 256 tables"]
