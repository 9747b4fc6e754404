"""``python -m kit.check_routes``: checks that each event met exactly the routes before it.

::

    check_routes --data-dir DIR --arrivals FILE... --server-log FILE [--copies N] [--json]

Compares the log of a stopped server with the ledgers of its sinks and the ``dropped`` lines of its
own log. ``route_checker`` lists the possible findings.

Exit codes: 0 no findings; 1 findings; 2 the evidence cannot be read.

Callers: ``churn``, people. Hides: files and the format of the report.
"""

import argparse
import itertools
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from distributary.cli.ledger import read_arrivals
from distributary.core.errors import DistributaryError
from distributary.core.flow import Logged
from distributary.core.log import Reader, read_folder
from distributary.datadir import DataDir
from kit.route_checker import BackfillDrop, Drop, Evidence, Report, check

__all__ = ["main", "read_drops", "read_logs", "shown"]


COUNTS = ("events", "changes", "verdicts", "matches", "delivered", "dropped", "copies")


def read_logs(log_dir: Path) -> list[Iterator[Logged]]:
    """Every record of each partition.

    Raises:
        ValueError: Retention has deleted records: the routes at the cut are not known here.
    """
    return [_read(log_dir, number) for number in range(read_folder(log_dir))]


def _read(log_dir: Path, partition: int) -> Iterator[Logged]:
    reader = Reader(log_dir, partition)
    try:
        if reader.start():
            raise ValueError(f"partition {partition} was cut by retention")
        yield from reader.read(0, reader.durable_end())
        if reader.damages():
            raise ValueError(f"partition {partition} is damaged: {reader.damages()[0]}")
    finally:
        reader.close()


class _LogLine(msgspec.Struct):
    """A ``dropped`` line of the server's log."""

    event: str
    partition: int = -1
    route: str = ""
    offset: int = -1
    index: int = -1
    first: int = msgspec.field(name="from", default=-1)
    to: int = -1


def read_drops(server_log: Path) -> Iterator[Drop | BackfillDrop]:
    """What the server dropped, by its log (JSON lines; other programs' lines are passed over)."""
    decoder = msgspec.json.Decoder(_LogLine)
    with server_log.open("rb") as file:
        for text in file:
            if b'"dropped"' not in text or not text.startswith(b"{"):
                continue
            line = decoder.decode(text)
            if line.event == "dropped" and line.to >= 0:
                yield BackfillDrop(line.partition, line.route, line.first, line.to)
            elif line.event == "dropped":
                yield Drop(line.partition, line.offset, line.index, line.route)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program; the exit code."""
    options = _parser().parse_args(arguments)
    try:
        evidence = Evidence(
            arrivals=itertools.chain.from_iterable(map(read_arrivals, options.arrivals)),
            drops=list(read_drops(options.server_log)),
            copies_max=options.copies,
        )
        report = check(read_logs(DataDir(options.data_dir).log), evidence)
    except (DistributaryError, OSError, ValueError) as error:
        print(f"the evidence cannot be read: {error}", file=sys.stderr)
        return 2
    print(shown(report, as_json=options.json))
    return 0 if report.passed else 1


def shown(report: Report, *, as_json: bool = False) -> str:
    """The report as text for people, or as JSON."""
    if as_json:
        return msgspec.json.encode(
            {"passed": report.passed, **msgspec.to_builtins(report)}
        ).decode()
    lines = [", ".join(f"{getattr(report, name):,} {name}" for name in COUNTS)]
    lines += [f"{f.kind}: {f.route} {f.place}: {f.detail}" for f in report.examples]
    total = ", ".join(f"{count:,} {kind}" for kind, count in report.counts.items())
    lines.append(f"wrong: {total}" if total else "each event met the routes before it")
    return "\n".join(lines)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="check_routes", description="Hold a log to its routes.")
    parser.add_argument("--data-dir", type=Path, required=True, help="of a server that has stopped")
    parser.add_argument("--arrivals", type=Path, nargs="+", required=True, metavar="FILE")
    parser.add_argument("--server-log", type=Path, required=True, metavar="FILE")
    parser.add_argument("--copies", type=int, default=0, help="extra deliveries allowed in all")
    parser.add_argument("--json", action="store_true", help="a JSON report")
    return parser


if __name__ == "__main__":
    sys.exit(main())
