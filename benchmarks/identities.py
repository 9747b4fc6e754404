"""What it costs to ask who publishes: a server in turn without identities, with key, with token.

    python benchmarks/identities.py [ROUNDS] [EVENTS]

Three servers run at once, and one is measured while the others have nothing to do: how fast EVENTS
are accepted over 64 connections while no owner reads, and the CPU that the receiver takes for one.
The order of the three changes with each round. Prints the medians of the ratios to the server that
asks nobody (``auth = off``).
"""

import contextlib
import itertools
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from _rig import Rig
from kit.token_issuer import TokenIssuer

KINDS = ("off", "key", "token")
KEY = ("key", "create", "--print", "--name", "bench", "--may", "publish", "--namespace", "*")
GRANT = 'sub = "till"\nmay = ["publish"]\nnamespaces = ["*"]\n'


def main():
    """Measure all rounds."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 12
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 40_000
    words = [sys.executable, "-m", "distributary.cli", *KEY]
    made = subprocess.run(words, capture_output=True, text=True, check=True)
    key = made.stderr.split()[-1]
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        issuer = stack.enter_context(TokenIssuer())
        tables = {"key": made.stdout, "token": issuer.table(GRANT)}
        shown = {"off": {}, "key": {"bearer": key}, "token": {"bearer": issuer.token(sub="till")}}
        rigs = {}
        for kind in KINDS:
            config = folder / f"{kind}.toml"
            auth = "off" if kind == "off" else "required"
            config.write_text(f'auth = "{auth}"\n{tables.get(kind, "")}', "utf-8")
            config.chmod(0o600)
            rigs[kind] = stack.enter_context(Rig("--config", str(config)))
        found = {kind: [] for kind in KINDS}
        for kind in KINDS * 2:
            _turn(rigs[kind], count, shown[kind])
        orders = itertools.cycle(itertools.permutations(KINDS))
        for _ in range(rounds):
            for kind in next(orders):
                found[kind].append(_turn(rigs[kind], count, shown[kind]))
            each = (
                f"{kind}: {found[kind][-1][0]:,.0f}/s {found[kind][-1][1]:.1f} us" for kind in KINDS
            )
            print(" | ".join(each), flush=True)
    for kind in KINDS[1:]:
        pairs = list(zip(found[kind], found["off"], strict=True))
        rates = [a[0] / b[0] for a, b in pairs]
        used = [a[1] / b[1] for a, b in pairs]
        print(f"{kind}: accepted {_spread(rates)}, CPU of the receiver {_spread(used)}")


def _spread(ratios):
    return f"{statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})"


def _turn(rig, count, shown):
    with rig.stopped_pipeline():
        used = rig.meter()
        sent = rig.load("closed", connections=64, count=count, **shown)
        by = used()
    _read_all(rig)
    return sent["rate"], by["ingest"] / count * 1e6


def _read_all(rig):
    """Wait until the owners have read what was accepted; metrics would ask who asks."""
    before = None
    while (now := rig.live_offset()) != before:
        before = now
        time.sleep(0.5)


if __name__ == "__main__":
    main()
