"""How fast events are sent again where the log is on Kafka: from the log, and from its archive.

COUNT events of 1 KB (200,000) lie in a topic of two partitions. A run replays them from the log,
and another one does at 200/s for a while; the command archives them, the topic loses them, and a
run replays them from the archive. Last, as many drain. One node, its owners on this machine, beside
three brokers and PostgreSQL. Run:
``PYTHONPATH=src:benchmarks:tests python benchmarks/shared_replay.py [COUNT]``.
"""

import contextlib
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

import shared_drain
import shared_form
from _rig import Rig, each_us
from kit.running_server import wait_until

PARTITIONS = 2
JSON = {"content-type": "application/json"}
REPLAY_S_MAX = 1_800.0
ARCHIVE_S_MAX = 1_800.0
KAFKA_S_MAX = 30.0
RATE, RATED_S = 200, 15.0


def main():
    """Measure it all."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 200_000
    with contextlib.ExitStack() as stack:
        kafka, _postgres, flags = shared_form.servers(stack)
        to = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "archive"
        words = flags(PARTITIONS, f'archive = "{to}"')
        before = shared_drain.topics(kafka)
        rig = stack.enter_context(Rig(*words))
        (topic,) = shared_drain.topics(kafka) - before
        shared_drain.Filling(kafka, topic, PARTITIONS, [*shared_drain.event_values(count)])()
        rig.settle()
        sink = rig.sink()
        wanted = {"sink": sink.url, "protocol": "HTTP"}
        answer = rig.server.request("PUT", "/subscriptions/old", json.dumps(wanted).encode(), JSON)
        assert answer.status == 201, answer.body
        replay(rig, sink, count, "log")
        slowly(rig)
        archive(words, to, count)
        cut(kafka, topic)
        replay(rig, sink, count, "archive")
        drain(rig, sink, count)


def replay(rig, sink, count, source):
    """Replay everything, and print what it takes."""
    rig.settle()
    sink.reset()
    used, began_s = rig.meter(), time.monotonic()
    ask(rig, source)
    wait_until(lambda: sink.ask("stats")["count"] > 0, REPLAY_S_MAX, "the first event", 0.05)
    first_s = time.monotonic() - began_s

    def ended():
        return rig.server.request("GET", f"/runs/{source}").json()["state"] == "done"

    wait_until(ended, REPLAY_S_MAX, "the end", 0.5)
    arrived = sink.wait_for(count)
    assert arrived["count"] == count, arrived
    print(f"from the {source}: the first event after {first_s:.1f} s", flush=True)
    show(source, arrived, count, used())


def ask(rig, run, **more):
    """Ask for a replay of everything."""
    body = json.dumps({"from": "2000-01-01T00:00:00Z", "run": run, **more}).encode()
    answer = rig.server.request("POST", "/subscriptions/old/replay", body, JSON)
    assert answer.status == 202, answer.body


def slowly(rig):
    """Replay at ``RATE`` for a while, and print what it takes."""
    ask(rig, "slowly", rateLimit=RATE)
    time.sleep(2.0)
    used = rig.meter()
    time.sleep(RATED_S)
    cores = {name: each / RATED_S for name, each in used().items()}
    rig.server.request("POST", "/runs/slowly/cancel")
    parts = ", ".join(f"{name} {each:.3f}" for name, each in cores.items() if each >= 0.005)
    print(f"at {RATE}/s: {sum(cores.values()):.3f} cores ({parts})", flush=True)


def archive(words, to, count):
    """Archive the topic by the command."""
    began_s = time.monotonic()
    command = [sys.executable, "-m", "distributary.cli", "archive", "--all", "--to", str(to)]
    subprocess.run([*command, *words], check=True, timeout=ARCHIVE_S_MAX, capture_output=True)
    took_s = time.monotonic() - began_s
    print(f"archived in {took_s:.0f} s: {count / took_s:,.0f}/s", flush=True)


def cut(kafka, topic):
    """Delete all records of *topic*, as retention of the leader does with what is archived."""
    admin = AdminClient(kafka.client())
    places = [TopicPartition(topic, number, -1) for number in range(PARTITIONS)]  # -1: to the end
    for deleted in admin.delete_records(places).values():
        deleted.result(KAFKA_S_MAX)


def drain(rig, sink, count):
    """Have as many events drain that wait in the log."""
    rig.settle()
    sink.reset()
    with rig.stopped_pipeline():
        rig.load("closed", connections=64, count=min(count, shared_drain.PART))
        used = rig.meter()
    count = min(count, shared_drain.PART)
    show("drain", sink.wait_for(count), count, used())


def show(what, arrived, count, used):
    """Print a rate, and the CPU by process."""
    rate = count / ((arrived["last_ns"] - arrived["first_ns"]) / 1e9)
    print(f"{what}: {rate:,.0f}/s", flush=True)
    shared_form.show(what, each_us(used, count))


if __name__ == "__main__":
    main()
