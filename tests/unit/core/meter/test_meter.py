"""Counting, resuming, and the text that Prometheus reads."""

import pytest
from prometheus_client.parser import text_string_to_metric_families

from distributary.core.meter import Families, Histogram, Meter


def samples(paths, now, helps=None):
    """(name, labels) -> value, by the official parser."""
    text = Families(paths, now, helps or {}).render().decode()
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_an_observation_falls_into_the_first_bucket_that_holds_it():
    """Bounds are inclusive; what is beyond the last falls into the rest."""
    histogram = Histogram((1.0, 2.0))
    for value in (0.5, 1.0, 1.5, 2.0, 2.5):
        histogram.observe(value)
    histogram.observe(0.1, count=3)
    assert histogram.counts == [5, 2, 1]
    assert histogram.total == pytest.approx(7.8)


def test_a_new_process_of_a_role_goes_on_counting(tmp_path):
    """Counters rise for ever; gauges were of the old process."""
    path = tmp_path / "metrics" / "owner.json"
    old = Meter(path)
    old.add("events_total", 5)
    old.gauges["open"] = 3
    old.histogram("wait_seconds", (1.0,)).observe(0.5)
    old.save()
    new = Meter(path)
    new.add("events_total")
    new.histogram("wait_seconds", (1.0,)).observe(2.0)
    assert new.counters == {"events_total": 6}
    assert new.gauges == {}
    assert new.histogram("wait_seconds", (1.0,)).counts == [1, 1]


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"counters": {"a": "x"}}'])
def test_a_damaged_snapshot_starts_counting_again(tmp_path, content):
    """Cut off by a power cut: no reason not to start."""
    path = tmp_path / "owner.json"
    path.write_bytes(content)
    meter = Meter(path)
    meter.add("events_total")
    meter.save()
    assert Meter(path).counters == {"events_total": 1}


def test_a_histogram_with_other_bounds_begins_anew(tmp_path):
    """A newer version has other buckets: old counts would lie in the wrong ones."""
    path = tmp_path / "owner.json"
    old = Meter(path)
    old.histogram("wait_seconds", (1.0, 2.0)).observe(0.5)
    old.save()
    histogram = Meter(path).histogram("wait_seconds", (5.0,))
    assert (histogram.bounds, histogram.counts) == ((5.0,), [0, 0])


def test_a_meter_without_a_file_is_not_saved(tmp_path, monkeypatch):
    """The process that renders counts in memory alone."""
    monkeypatch.chdir(tmp_path)
    Meter().save()
    assert list(tmp_path.iterdir()) == []


def test_a_snapshot_that_has_not_changed_is_not_written_again(tmp_path):
    """An idle process leaves the disk alone; one that is missing is written."""
    path = tmp_path / "role.json"
    meter = Meter(path)
    meter.add("events_total")
    meter.save()
    first = path.stat().st_ino
    meter.save()
    assert path.stat().st_ino == first
    meter.add("events_total")
    meter.save()
    assert path.stat().st_ino != first
    path.unlink()
    meter.save()
    assert Meter(path).counters["events_total"] == 2


def test_the_text_sums_all_roles_and_the_calling_process(tmp_path):
    """One number for the system."""
    paths = [tmp_path / "a.json", tmp_path / "b.json", tmp_path / "absent.json"]
    for count, path in enumerate(paths[:2], 1):
        meter = Meter(path)
        meter.add("events_total", count)
        meter.add('dropped_total{reason="route-deleted"}', count)
        meter.histogram("wait_seconds", (1.0, 2.0)).observe(float(count))
        meter.gauges[f'open{{role="{count}"}}'] = count
        meter.save()
    now = Meter()
    now.add("events_total", 10)
    found = samples(paths, now, {"events_total": "Events read"})
    assert found["distributary_events_total", ()] == 13
    assert found["distributary_dropped_total", (("reason", "route-deleted"),)] == 3
    assert found["distributary_open", (("role", "2"),)] == 2
    assert found["distributary_wait_seconds_bucket", (("le", "1.0"),)] == 1
    assert found["distributary_wait_seconds_bucket", (("le", "2.0"),)] == 2
    assert found["distributary_wait_seconds_bucket", (("le", "+Inf"),)] == 2
    assert found["distributary_wait_seconds_sum", ()] == 3.0


def test_some_namespaces_have_their_own_series_alone(tmp_path):
    """By the label ``namespace``: nothing of others, of their sums, or of the whole server."""
    meter = Meter(tmp_path / "a.json")
    for name in ("shop", "till", "shopping", "(others)", "*"):
        meter.add(f'matched_total{{namespace="{name}",subscription="s"}}', 3)
        meter.gauges[f'waiting{{namespace="{name}"}}'] = 1.0
        meter.histogram(f'wait_seconds{{namespace="{name}"}}', (1.0,)).observe(0.5)
    meter.add("events_total", 9)
    meter.add('answers_total{status="200"}', 9)
    meter.add('told_total{other="x",namespaces="shop"}', 9)
    meter.save()
    now = Meter()
    now.gauges['lag_records{partition="0"}'] = 1.0
    now.add('matched_total{namespace="shop",subscription="s"}', 1)
    text = Families([tmp_path / "a.json"], now, {}, frozenset(("shop",))).render().decode()
    assert [line for line in text.splitlines() if not line.startswith("#")] == [
        'distributary_matched_total{namespace="shop",subscription="s"} 4.0',
        'distributary_waiting{namespace="shop"} 1.0',
        'distributary_wait_seconds_bucket{le="1.0",namespace="shop"} 1.0',
        'distributary_wait_seconds_bucket{le="+Inf",namespace="shop"} 1.0',
        'distributary_wait_seconds_count{namespace="shop"} 1.0',
        'distributary_wait_seconds_sum{namespace="shop"} 0.5',
    ]
    assert Families([tmp_path / "a.json"], now, {}, frozenset()).render() == b""


def test_help_lines_are_those_that_were_given():
    """Or the name in words."""
    now = Meter()
    now.add("events_total")
    told = Families([], now, {"events_total": "Events read"}).render()
    assert b"# HELP distributary_events_total Events read" in told
    assert b"# HELP distributary_events_total events total" in Families([], now, {}).render()


def test_labels_of_several_keys_are_kept_apart():
    """As Prometheus writes them behind a name."""
    now = Meter()
    now.add('sent_total{kind="a",to="store"}', 2)
    now.add('sent_total{kind="b",to="sink"}', 3)
    found = samples([], now)
    assert found["distributary_sent_total", (("kind", "a"), ("to", "store"))] == 2
    assert found["distributary_sent_total", (("kind", "b"), ("to", "sink"))] == 3
