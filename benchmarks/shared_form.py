"""CPU of an event and its time to the sink: embedded, and over Kafka and PostgreSQL.

One subscription that matches all; both forms in turns, each with two partitions, and their owners
on this machine. Three brokers and PostgreSQL run beside the second form, and do not count. Run:
``PYTHONPATH=src:benchmarks:tests python benchmarks/shared_form.py [seconds [partitions ...]]``;
with numbers of partitions it measures how the second form scales instead.
"""

import base64
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

from _rig import Rig, each_us
from kit.ports import free_port
from kit.servers.kafka_cluster import KafkaCluster
from kit.servers.postgres import Postgres

KEY = base64.b64encode(bytes(32)).decode()
THROUGH = 100_000
"""Events that are sent as fast as they are taken."""
COST_RATE, TIME_RATE = 2_000, 500
"""Events a second, for the CPU and for the time of one."""


def main():
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 15.0
    partitions = [int(word) for word in sys.argv[2:]]
    with ExitStack() as stack:
        _kafka, _postgres, flags = servers(stack)
        if partitions:
            for count in partitions:
                measure(f"shared, {count} partitions", flags(count), None)
            return
        for turn in range(2):
            for name, words in (("embedded", ["--partitions", "2"]), ("shared", flags(2))):
                measure(f"{name}, turn {turn + 1}", words, seconds)


def servers(stack):
    """Brokers, PostgreSQL, and a function that returns the flags of a new node."""
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    with ThreadPoolExecutor() as threads:
        kafka, postgres = threads.map(stack.enter_context, (KafkaCluster(), Postgres()))
    return kafka, postgres, shared_flags(folder, kafka, postgres)


def shared_flags(folder, kafka, postgres):
    """A function that returns the flags of a node on a new log and a new store.

    It takes the number of partitions, and further lines of the node's configuration.
    """

    def flags(partitions, *more):
        place = postgres.new_database()
        secrets = {"store_password_file": place.password, "credential_key_file": KEY}
        for name, text in secrets.items():
            (folder / name).write_text(text)
            (folder / name).chmod(0o600)
        address = f"127.0.0.1:{free_port()}"
        config = folder / f"{address}.toml"
        config.write_text(
            f'log = "kafka://{",".join(kafka.servers)}/bench-{address.rpartition(":")[2]}"\n'
            f'store = "{place.url}"\n'
            + "".join(f'{name} = "{folder / name}"\n' for name in secrets)
            + f'node_name = "bench"\nnode_address = "{address}"\npartitions = {partitions}\n'
            + "".join(f"{line}\n" for line in more)
        )
        return ["--config", str(config)]

    return flags


def measure(name, flags, seconds):
    """Print what one server needs: microseconds of CPU an event, milliseconds to the sink."""
    with Rig(*flags) as rig:
        sink = rig.sink()
        rig.server.subscribe(sink.url)
        rig.load("closed", connections=16, count=5_000)
        sink.wait_for(5_000)
        print(name, flush=True)
        sink.reset()
        used = rig.meter()
        rig.load("closed", connections=64, count=THROUGH)
        sink.wait_for(THROUGH)
        show("through", each_us(used(), THROUGH))
        if seconds is None:
            return
        for rate in (COST_RATE, TIME_RATE):
            sink.reset()
            used = rig.meter()
            rig.load("open", connections=64, rate=rate, seconds=seconds)
            seen = sink.wait_for(int(rate * seconds))
            show(f"{rate}/s", each_us(used(), rate * seconds))
            print(f"  to the sink p50 {seen['p50_ms']:.1f} ms, p99 {seen['p99_ms']:.1f} ms")


def show(what, used):
    """Print CPU by process."""
    parts = ", ".join(f"{name} {us:.0f}" for name, us in sorted(used.items()) if us >= 1)
    print(f"  {what}: {sum(used.values()):.0f} us an event ({parts})", flush=True)


if __name__ == "__main__":
    main()
