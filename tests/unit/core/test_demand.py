"""What people ask of owners: the pace of a run."""

from distributary.core.demand import DemandDetails


def test_partitions_share_the_rate_of_a_run():
    """Each an equal part; without one there is no limit."""
    assert DemandDetails(rate=50.0, partitions=4).share == 12.5
    assert DemandDetails().share is None


def test_a_dry_run_keeps_no_pace():
    """It sends nothing: a million matches at 200 a second would take more than an hour to count."""
    assert DemandDetails(rate=50.0, partitions=4, dry=True).share is None
