"""The log on a real Kafka cluster passes the contract suite of logs."""

import pytest

from distributary.testing import check_log

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("check", check_log.CHECKS, ids=lambda check: check.__name__)
def test_passes_the_contract(check, make_log):
    """The log keeps what the rooms above count on."""
    check_log.run_check(check, make_log)
