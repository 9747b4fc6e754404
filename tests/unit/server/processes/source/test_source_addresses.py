"""Where brokers of sources may be: by the settings about addresses, as sinks."""

import msgspec
import pytest

from distributary.datadir import DataDir
from distributary.server.processes.control.reload import OF_SOURCES
from distributary.server.processes.source.sources import sources_child
from distributary.server.processes.source_process import SourcesStart
from distributary.server.settings import Settings

TABLE = {"name": "s", "protocol": "MQTT5", "uri": "mqtt://broker.example", "topic": "t"}
PRIVATE, PUBLIC, METADATA = "10.0.0.1", "93.184.216.34", "169.254.169.254"
TRANSLATED = "2a00:64::a00:1"  # 10.0.0.1 behind a prefix of the operator's
PREFIX = "2a00:64::/96"


def rule(tmp_path, *, loopback_only=True, **settings):
    """The rule that the sources process is started with."""
    child = sources_child(
        Settings(sources=(TABLE,), **settings),
        DataDir(tmp_path),
        "unix:/run/own.sock",
        loopback_only=loopback_only,
        line=lambda _line: None,
    )
    return msgspec.json.decode(child._arguments[-1], type=SourcesStart).rule()


@pytest.mark.parametrize(
    ("private_sinks", "loopback_only", "allowed"),
    [
        ("auto", True, True),
        ("auto", False, False),
        ("allow", True, True),
        ("allow", False, True),
        ("deny", True, False),
        ("deny", False, False),
    ],
)
def test_private_brokers_are_as_the_setting_says(tmp_path, private_sinks, loopback_only, allowed):
    """``auto``: while the server listens on loopback alone. Never a metadata address."""
    found = rule(tmp_path, private_sinks=private_sinks, loopback_only=loopback_only)
    assert (found.refusal(PRIVATE) is None) is allowed
    assert found.refusal(PUBLIC) is None
    assert found.refusal(METADATA) is not None


def test_networks_that_are_allowed_are_allowed_for_brokers(tmp_path):
    """Also where private addresses are refused."""
    found = rule(tmp_path, private_sinks="deny", allow_sinks=("10.0.0.0/24",))
    assert found.refusal(PRIVATE) is None
    assert found.refusal("10.0.1.1") is not None


def test_addresses_behind_a_translator_are_looked_at(tmp_path):
    """A prefix of the operator's, which nobody else knows."""
    found = rule(tmp_path, private_sinks="deny", nat64_prefixes=(PREFIX,))
    assert "10.0.0.1" in found.refusal(TRANSLATED)
    allowed = rule(
        tmp_path,
        private_sinks="deny",
        nat64_prefixes=(PREFIX,),
        allow_sinks=("10.0.0.0/24", PREFIX),
    )
    assert allowed.refusal(TRANSLATED) is None


def test_a_change_of_these_settings_starts_the_sources_anew():
    """The process reads them at its start alone."""
    assert {"allow_sinks", "nat64_prefixes", "private_sinks"} <= OF_SOURCES
