"""What the log holds in a stretch that is archived."""

from types import SimpleNamespace

from distributary.spark.archive.rows import LogTotals


def _rows(*times_s):
    return SimpleNamespace(
        stamps_us=[each * 1_000_000 for each in times_s], checks=lambda: [1] * len(times_s)
    )


def test_a_stretch_has_the_least_and_the_greatest_time_of_its_events():
    """Its first event need not be the earliest one: a new leader's clock may be behind."""
    totals = LogTotals()
    totals.add(_rows(50, 90, 40))
    assert (totals.from_ms, totals.to_ms) == (40_000, 90_000)
    totals.add(_rows(45, 30, 60))
    assert (totals.from_ms, totals.to_ms) == (30_000, 90_000)
    totals.add(_rows(95))
    assert (totals.from_ms, totals.to_ms) == (30_000, 95_000)


def test_a_stretch_without_events_has_no_times():
    """Its records are those of routes, or damaged."""
    assert (LogTotals().from_ms, LogTotals().to_ms) == (0, 0)
