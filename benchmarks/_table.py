"""The tables of a run: each figure beside what is wanted, and CPU by process."""

from typing import NamedTuple

from rich.console import Console
from rich.table import Table

import _figures
import _yardsticks

COLUMNS = 170
"""The tables are wider than a terminal that nobody made wider."""

SHOWN_MIN = 0.005
"""A process whose every figure is smaller has no column."""


class Seen(NamedTuple):
    """What a run measured of a line.

    Attributes:
        value: In the unit of the line.
        by_process: Its parts, for CPU; empty for other lines.
        yardsticks: What the run measured before and after it.
    """

    value: float
    by_process: dict[str, float]
    yardsticks: _yardsticks.Yardsticks

    @classmethod
    def of(cls, measured, yardsticks):
        """From a figure of a group: a number, or numbers by process."""
        if isinstance(measured, dict):
            return cls(sum(measured.values()), measured, yardsticks)
        return cls(measured, {}, yardsticks)


def show(seen):
    """Print both tables of *seen*, by the names of lines."""
    console = Console()
    console.width = max(console.width, COLUMNS)
    lines = [(line, seen[line.name]) for line in _figures.LINES if line.name in seen]
    console.print(_figures_table(lines))
    cpu = [(line, one) for line, one in lines if one.by_process]
    if cpu:
        console.print(_processes_table(cpu))


def _figures_table(lines):
    table = Table(
        "figure",
        title="2xx means on disk; 1 KB events; sink on the same machine",
        caption=_caption([one.yardsticks for _, one in lines]),
    )
    for column in ("wanted", "seen", "in bare units", "verdict", "reference", "ratio"):
        table.add_column(column, justify="right", no_wrap=True)
    for line, one in lines:
        good = _figures.reached(line, one.value, one.yardsticks)
        ratio = _figures.ratio(line, one.value)
        table.add_row(
            line.about,
            _wanted(line, one.yardsticks),
            f"{_number(one.value)} {line.unit}",
            _beside(line, one),
            {None: "", True: "[green]reached[/]", False: "[bold red]missed[/]"}[good],
            "" if line.reference is None else f"{_number(line.reference)} ({line.of})",
            "" if ratio is None else f"{ratio:.2f}x",
        )
    return table


def _caption(yardsticks):
    """What the units were: the least and the most of the run's groups."""
    if not yardsticks:
        return ""
    ends = [(min(found), max(found)) for found in zip(*yardsticks, strict=True)]
    rate, cpu_us, p50_ms, p99_ms = (f"{_number(low)} to {_number(high)}" for low, high in ends)
    return (
        f"bare exchange: {rate}/s, {cpu_us} us of CPU for both ends;"
        f" fdatasync: p50 {p50_ms} ms, p99 {p99_ms} ms"
    )


def _wanted(line, yardsticks):
    if line.target is None:
        return ""
    sign = "≥" if line.at_least else "≤"
    more = [str(line.target)] if isinstance(line.target, _figures.Of) else []
    more += [] if line.aim is None else [f"aim {line.aim:g}"]
    text = f"{sign} {_number(_figures.target(line, yardsticks))} {line.unit}"
    return f"{text} ({', '.join(more)})" if more else text


def _beside(line, one):
    """Bare units; for a latency the quantile of ``fdatasync``."""
    units = _figures.units(line, one.value, one.yardsticks)
    if units is not None:
        return f"{units:.2f} {'rate' if line.unit in _figures.RATES else 'CPU'}"
    sync_ms = _figures.sync_ms(line, one.yardsticks)
    return "" if sync_ms is None else f"fdatasync {_number(sync_ms)} ms"


def _processes_table(lines):
    table = Table("figure", title="CPU by process, in bare units; idle in % of a core")
    rows = {line.about: _parts(line, one) for line, one in lines}
    names = dict.fromkeys(name for parts in rows.values() for name in parts)
    names = [n for n in names if any(parts.get(n, 0.0) >= SHOWN_MIN for parts in rows.values())]
    for column in ("all", *names):
        table.add_column(column, justify="right")
    for about, parts in rows.items():
        cells = (f"{parts[name]:.2f}" if name in parts else "" for name in names)
        table.add_row(about, f"{sum(parts.values()):.2f}", *cells)
    return table


def _parts(line, one):
    """CPU of each process: in bare units where the line has them, else in its own unit."""
    in_units = {
        name: _figures.units(line, value, one.yardsticks) for name, value in one.by_process.items()
    }
    return one.by_process if None in in_units.values() else in_units


def _number(value):
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.2f}".rstrip("0").rstrip(".")
