"""Turns: no namespace keeps the places of all, and none stands empty meanwhile."""

import asyncio
import contextlib
import threading
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from distributary.core.turns import AT_ONCE, QUESTIONS_MAX, Places, Turns, in_thread

LATER_S = 1.0
"""When hosts may have one more that may not at first."""


def everywhere(_host: str) -> float:
    """No host has a limit."""
    return AT_ONCE


def only(*hosts: str) -> Callable[[str], float]:
    """All others have one until later."""
    return lambda host: AT_ONCE if host in hosts else LATER_S


@pytest.fixture
def turns() -> Iterator[Turns]:
    """A thousand requests of one namespace wait, at a hundred hosts; nothing stays behind."""
    made = Turns()
    for number in range(1000):
        made.put(f"evil-{number}", "evil", f"{number % 100}.example")
    yield made
    while (key := made.take(everywhere, LATER_S)) is not None:
        made.end(key)
    assert (made._waiting, made._where) == ({}, {})


def end_all(turns: Turns) -> None:
    """All requests that run have ended."""
    for key in list(turns._holders):
        turns.end(key)
    assert not turns._held


def test_who_holds_nothing_is_next(turns):
    """However many of another namespace have waited longer."""
    for _ in range(64):
        turns.take(everywhere)
    turns.put("good", "good", "0.example")
    turns.end("evil-0")
    assert turns.take(everywhere) == "good"
    end_all(turns)


def test_two_namespaces_hold_half_each(turns):
    """Also where the requests of one end at once, and those of the other are slow."""
    for number in range(1000):
        turns.put(f"good-{number}", "good", "good.example")
    held = [turns.take(everywhere) for _ in range(64)]
    assert Counter(key.partition("-")[0] for key in held) == {"evil": 32, "good": 32}
    for _ in range(200):
        key = next(key for key in held if key.startswith("good"))
        turns.end(key)
        held.remove(key)
        held.append(turns.take(everywhere))
    assert Counter(key.partition("-")[0] for key in held) == {"evil": 32, "good": 32}
    end_all(turns)


def test_namespaces_that_hold_as_many_take_turns(turns):
    """Where every request ends before the next begins."""
    for number in range(5):
        turns.put(f"good-{number}", "good", "good.example")
    taken = []
    for _ in range(10):
        taken.append(turns.take(everywhere))
        turns.end(taken[-1])
    assert [key.partition("-")[0] for key in taken] == ["evil", "good"] * 5


def test_hosts_of_a_namespace_take_turns_and_keep_their_order(turns):
    """One host with many requests delays no other; what waits longest at a host is first."""
    for number in range(3):
        turns.put(f"good-{number}", "good", "many.example")
    turns.put("good-last", "good", "one.example")
    taken = [turns.take(only("many.example", "one.example")) for _ in range(5)]
    assert taken == ["good-0", "good-last", "good-1", "good-2", None]
    end_all(turns)


def test_what_may_not_start_keeps_its_place(turns):
    """Another namespace, or another host, goes on meanwhile."""
    turns.put("good", "good", "busy.example")
    assert turns.take(only("1.example")) == "evil-1"
    assert turns.take(everywhere) == "good"
    end_all(turns)


def test_what_may_not_start_is_taken_once_it_may(turns):
    """In its time, or when one of its host ends, which takes nobody's turn."""
    turns.put("first", "good", "busy.example")
    turns.put("second", "good", "busy.example")
    assert turns.take(everywhere) == "evil-0"
    assert turns.take(everywhere) == "first"
    assert turns.take(only("1.example", "2.example")) == "evil-1"
    assert turns.take(only("1.example", "2.example")) == "evil-2"
    turns.end("first")
    assert turns.take(only("busy.example")) == "second"
    assert turns.take(only("1.example", "2.example")) == "evil-101"
    assert turns.take(only("1.example", "2.example")) == "evil-102"
    assert [turns.take(everywhere, LATER_S) for _ in range(3)] == ["evil-201", "evil-202", "evil-3"]
    end_all(turns)


@pytest.mark.parametrize("namespaces", [1, 100])
def test_nobody_looks_at_hosts_that_may_not_start(namespaces):
    """However many wait there, and in however many namespaces: at each once in an interval."""
    turns, looks, next_s = Turns(), Counter(), dict[str, float]()
    for number in range(2_000):
        turns.put(f"{number}", f"{number % namespaces}", f"{number % 400}.example")

    def free_s(host: str) -> float:
        looks["all"] += 1
        return next_s.get(host, AT_ONCE)

    taken = []
    for now_s in range(500):
        while len(taken) < 20 * (now_s + 1) and (key := turns.take(free_s, now_s)) is not None:
            taken.append(key)
            next_s[f"{int(key) % 400}.example"] = now_s + 40
            turns.end(key)
    assert len(taken) == len(set(taken)) == 2_000
    assert turns.is_empty
    assert looks["all"] <= 3 * len(taken)


def test_what_is_outdated_is_forgotten(turns):
    """A namespace that comes and goes behind one that is not done leaves nothing."""
    turns.take(everywhere)
    for number in range(1_000):
        turns.put("good", "good", f"{number}.example")
        assert turns.take(everywhere) == "good"
        turns.end("good")
    assert len(turns._order) < 100
    end_all(turns)


def test_what_is_discarded_is_not_taken(turns):
    """And may be put again, behind the others; put twice it waits once."""
    turns.put("a", "good", "x.example")
    turns.put("b", "good", "x.example")
    turns.put("a", "good", "x.example")
    turns.discard("a")
    turns.discard("a")
    assert "a" not in turns
    turns.put("a", "good", "x.example")
    assert [turns.take(only("x.example")) for _ in range(3)] == ["b", "a", None]
    end_all(turns)


class Users:
    """Coroutines that want a place; each holds it until it is told to go."""

    def __init__(self, count: int) -> None:
        self.places = Places(count)
        self.began: list[str] = []
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self._leave: dict[str, asyncio.Event] = {}

    async def come(self, *names: str) -> None:
        """Let users come, each of the namespace that begins its name."""
        for name in names:
            self._leave[name] = asyncio.Event()
            self.tasks[name] = asyncio.create_task(self._use(name))
        await asyncio.sleep(0)

    async def go(self, *names: str) -> None:
        """Let users free their places."""
        for name in names:
            self._leave[name].set()
            await self.tasks[name]
        await asyncio.sleep(0)

    async def cancel(self, name: str) -> None:
        """End a user wherever it is."""
        self.tasks[name].cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self.tasks[name]
        await asyncio.sleep(0)

    async def _use(self, name: str) -> None:
        async with self.places.one(name[0]):
            self.began.append(name)
            await self._leave[name].wait()


def test_a_namespace_with_one_user_waits_for_no_more_than_a_place():
    """However many of another one have come before."""

    async def use():
        users = Users(2)
        await users.come("a1", "a2", "a3", "a4", "a5", "b1", "b2")
        assert users.began == ["a1", "a2"]
        await users.go("a1")
        assert users.began[2:] == ["b1"]
        await users.go("a2", "b1", "a3")
        assert users.began[3:] == ["a3", "b2", "a4"]
        await users.go("b2", "a4", "a5")
        assert len(users.began) == 7

    asyncio.run(use())


def test_who_is_cancelled_has_no_place():
    """Neither who waits, nor who holds one, nor who was about to get it."""

    async def use():
        users = Users(1)
        await users.come("a1", "a2", "a3", "a4")
        await users.cancel("a2")
        await users.cancel("a1")
        assert users.began == ["a1", "a3"]
        users.tasks["a4"].cancel()
        await users.go("a3")
        await users.come("a5")
        assert users.began == ["a1", "a3", "a5"]
        await users.go("a5")

    asyncio.run(use())


def test_what_clients_ask_is_answered_by_a_few_threads_in_turn():
    """A namespace that asks without end leaves threads to the stores, and delays no other."""
    began: list[str] = []
    running, going_on = threading.Semaphore(0), threading.Event()

    def answer(namespace, *, number):
        began.append(namespace)
        running.release()
        assert going_on.wait(60)
        return number

    async def ask():
        many = [asyncio.create_task(in_thread("many", answer, "many", number=n)) for n in range(9)]
        for _ in range(QUESTIONS_MAX):
            await asyncio.to_thread(running.acquire)
        few = asyncio.create_task(in_thread("few", answer, "few", number=0))
        await asyncio.sleep(0)
        assert began == ["many"] * QUESTIONS_MAX
        going_on.set()
        return await asyncio.gather(*many, few)

    assert asyncio.run(ask()) == [*range(9), 0]
    assert began[: QUESTIONS_MAX + 1] == ["many"] * QUESTIONS_MAX + ["few"]
