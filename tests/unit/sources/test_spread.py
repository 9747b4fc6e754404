"""Nodes share sources: each about as many, no lease is taken twice, and nobody takes back."""

from collections import Counter

import pytest

from distributary.sources import next_step

TURNS_MAX = 12
"""Turns in which sources have to settle, of however many nodes."""


def settle(held: dict[str, str], names: list[str], nodes: list[str]) -> int:
    """Let each node act in turn until nothing changes; how many sources changed hands."""
    moves = 0
    for _ in range(TURNS_MAX):
        before = dict(held)
        for node in nodes:
            counts = Counter(held.values())
            step = next_step(names, held, {each: counts[each] for each in nodes}, node)
            for name in step.give:
                assert held.pop(name) == node
            for name in step.take:
                assert name not in held
                held[name] = node
                moves += 1
        if held == before:
            return moves
    raise AssertionError(held)


@pytest.mark.parametrize("nodes", [1, 2, 3, 5])
@pytest.mark.parametrize("sources", [0, 1, 2, 3, 4, 64])
def test_every_source_runs_and_numbers_differ_by_one_at_most(sources: int, nodes: int) -> None:
    """Also where the nodes come one after the other, and go."""
    names = [f"s{number}" for number in range(sources)]
    every = [f"n{number}" for number in range(nodes)]
    held: dict[str, str] = {}
    for count in range(1, nodes + 1):
        settle(held, names, every[:count])
        assert set(held) == set(names)
    counts = [Counter(held.values())[node] for node in every]
    assert max(counts) - min(counts) <= 1
    left = every[1:]
    if left:
        gone = {name for name, node in held.items() if node == every[0]}
        for name in gone:
            del held[name]
        stayed = dict(held)
        settle(held, names, left)
        assert set(held) == set(names)
        assert sum(held[name] != node for name, node in stayed.items()) == 0, "those stay"


def test_a_settled_spread_stays() -> None:
    """No source is taken from its broker without a reason."""
    names = ["a", "b", "c"]
    held = {"a": "x", "b": "y", "c": "y"}
    assert settle(held, names, ["x", "y"]) == 0


def test_a_source_of_another_nodes_settings_is_nobodys_here() -> None:
    """While settings change, nodes know different ones."""
    step = next_step(["a"], {"b": "y"}, {"x": 0, "y": 1}, "x")
    assert step.take == ("a",)
