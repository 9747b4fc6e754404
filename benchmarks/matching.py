"""Matching on one core: what an event costs at 10, 1,000 and 100,000 routes; no server.

    python benchmarks/matching.py [--quick]

The mix: 70 % of the routes are exact on ``type``, 15 % prefixes, 5 % suffixes, 10 % nested and
CESQL, of which all but 100 have a conjunct that an index can go by. Each event matches three
routes. All kinds of events are equally likely, which is the worst case for the processor's
caches; everything is made from one seed.

The table is restored from a snapshot, as a process does at its start. Events are decoded from
their log records in batches, as the pipeline does, so that no string is warm from the last round;
only matching is timed, and beside it once decoding and matching together. CPU time, the median of
several rounds. Each size has a process of its own.
"""

import argparse
import gc
import json
import os
import random
import statistics
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path

import psutil

import _routes
from distributary.core.event import record as event_record
from distributary.core.flow import RouteRecord, encode_route
from distributary.core.route import SNAPSHOT_FORMAT, RouteTable

SIZES = {"10": 10, "1k": 1_000, "100k": 100_000}
EVENTS = 61_440
BATCH = 256
ROUNDS = 5
CHANGES = 300


def measure(scale=1.0):
    """matching on one core at 10, 1,000 and 100,000 routes, no server."""
    found = {name: _child("--size", size, "--scale", scale) for name, size in SIZES.items()}
    memory = _child("--memory", SIZES["100k"])
    return (
        {f"matching_{name}": 1e6 / one["match_us"] for name, one in found.items()}
        | {f"routing_{name}": 1e6 / one["both_us"] for name, one in found.items()}
        | {
            "matching_growth": found["100k"]["match_us"] / found["10"]["match_us"],
            "routing_growth": found["100k"]["both_us"] / found["10"]["both_us"],
            "matching_change": found["100k"]["change_ms"],
            "matching_change_worst": found["100k"]["change_worst_ms"],
            "matching_compile": found["100k"]["compile_s"],
            "matching_snapshot": found["100k"]["frozen_ms"],
            "matching_memory": memory["traced_bytes"],
            "matching_rss": found["100k"]["rss_bytes"],
        }
    )


def _child(*arguments):
    """What this program prints, run with *arguments* in a process of its own."""
    command = [sys.executable, __file__, *map(str, arguments)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, env=os.environ)
    return json.loads(done.stdout)


def measure_size(count, scale):
    """Everything of one size."""
    records, kinds = _routes.make(count)
    batches = _batches(kinds, max(BATCH, int(EVENTS * scale)))
    snapshot = _snapshot(records)
    del records
    _load()
    gc.collect()
    rss = psutil.Process().memory_info().rss
    begun = time.process_time()
    table = RouteTable.restore(snapshot)
    compile_s = time.process_time() - begun
    gc.collect()
    rss_bytes = (psutil.Process().memory_info().rss - rss) / count
    gc.freeze()
    rounds = [_round(table, batches) for _ in range(ROUNDS + 1)][1:]  # the first one fills memos
    change_ms = sorted(_changes(table, kinds, count))
    begun = time.process_time()
    table.frozen()
    frozen_ms = (time.process_time() - begun) * 1e3
    return {
        "match_us": statistics.median(one for one, _ in rounds),
        "both_us": statistics.median(one for _, one in rounds),
        "change_ms": change_ms[len(change_ms) // 2],
        "change_worst_ms": change_ms[-1],
        "compile_s": compile_s,
        "frozen_ms": frozen_ms,
        "rss_bytes": rss_bytes,
    }


def _batches(kinds, count):
    """Records of events, as they stand in the log."""
    events = _routes.events(kinds, count)
    return [event_record.encode(events[at : at + BATCH]) for at in range(0, count, BATCH)]


def _load():
    """What is loaded once (the parser of CESQL) is no route's."""
    RouteTable.restore(_snapshot(_routes.make(1_000)[0]))


def _snapshot(records):
    bodies = b",".join(map(encode_route, records))
    heading = b'{"format":%d,"last_seq":%d,"routes":[' % (SNAPSHOT_FORMAT, len(records))
    return heading + bodies + b"]}"


def _round(table, batches):
    """CPU microseconds an event: for matching, and for decoding and matching."""
    match, matched, events = table.match, 0, 0
    match_s = both_s = 0.0
    for batch in batches:
        begun = time.process_time()
        decoded = event_record.decode(batch)
        ready = time.process_time()
        for event in decoded:
            matched += len(match(event))
        ended = time.process_time()
        match_s += ended - ready
        both_s += ended - begun
        events += len(decoded)
    assert abs(matched / events - _routes.MATCHES) < 0.1, matched / events
    return match_s / events * 1e6, both_s / events * 1e6


def _changes(table, kinds, count):
    """CPU milliseconds of changes, one after the other: create, replace, delete."""
    rng, seq = random.Random(_routes.SEED), count
    for number in range(CHANGES):
        body = rng.choice([_routes.simple, _routes.nested, _routes.coverless])
        filters = (body(rng.choice(kinds), number),)
        op = ("put", "put", "delete")[number % 3]
        uid = f"changed-{number // 3}"
        seq += 1
        record = RouteRecord(seq=seq, op=op, uid=uid, revision=number % 3 + 1, filters=filters)
        begun = time.process_time()
        table.apply(record)
        yield (time.process_time() - begun) * 1e3


def measure_memory(count):
    """Bytes a route, as Python counts them."""
    snapshot = _snapshot(_routes.make(count)[0])
    _load()
    gc.collect()
    tracemalloc.start()
    table = RouteTable.restore(snapshot)
    gc.collect()
    traced, _ = tracemalloc.get_traced_memory()
    return {"traced_bytes": traced / len(table)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a quarter of the events")
    parser.add_argument("--size", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--scale", type=float, default=1.0, help=argparse.SUPPRESS)
    parser.add_argument("--memory", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.size is not None:
        print(json.dumps(measure_size(options.size, options.scale)))
    elif options.memory is not None:
        print(json.dumps(measure_memory(options.memory)))
    else:
        _show(measure(0.25 if options.quick else 1.0))


def _show(found):
    import _figures  # noqa: PLC0415 - the children need no table

    print(f"{'':44} {'target':>12} {'measured':>12}   of target")
    for name, value in found.items():
        line = _figures.BY_NAME[name]
        share = "" if line.target is None else f"{value / line.target:.2f}"
        target = "" if line.target is None else f"{line.target:,.0f}"
        print(f"{line.about:44} {target:>12} {value:>12,.2f} {line.unit:10} {share}")
    folder = Path(__file__).parent / "results"
    folder.mkdir(exist_ok=True)
    path = folder / f"{time.strftime('%Y-%m-%dT%H%M%S')}-matching.json"
    path.write_text(json.dumps(found, indent=2) + "\n")
    print(f"written to {path.relative_to(Path(__file__).parents[1])}")


if __name__ == "__main__":
    sys.exit(main())
