"""What the log says with the first refusal of a host name."""

import pytest

from distributary.server import settings
from distributary.server.processes.ingest_process import host_remedy


@pytest.mark.parametrize("allowed", [(), ("first.svc",), ("first.svc", "second_1")])
def test_the_line_that_is_told_allows_the_name(allowed):
    """As a whole line of the file: what was allowed before stays so."""
    line = host_remedy("events.shop.svc", allowed)["remedy"]
    assert settings.load({}, {}, line).allowed_hosts == (*allowed, "events.shop.svc")


@pytest.mark.parametrize("name", ["", "a'b", "%6c", "[::1", "a" * 300])
def test_what_no_setting_could_allow_has_no_line(name):
    """It is no name that a publisher uses."""
    assert host_remedy(name, ()) == {}
