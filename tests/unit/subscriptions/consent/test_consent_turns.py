"""Questions for several namespaces: none waits for all of another one's."""

import asyncio

from distributary.core.errors import TransportError
from distributary.subscriptions.consent._keeper import ASKS_MAX
from distributary.subscriptions.consent._line import ASKS_PER_S_MAX, HOST_INTERVAL_S, AskPace, Line
from kit.consent_world import SILENT

EVIL = [(f"evil-{number}", f"https://evil-{number}.example/") for number in range(400)]


def hosts(world) -> list[str]:
    """The hosts that were asked, in order."""
    return [question.endpoint.host for question in world.targets.asked]


def test_many_new_targets_hold_up_no_other_namespace(world):
    """Four hundred at so many hosts want the pace of eight seconds; the next is for the other."""
    world.put_all(EVIL, namespace="evil")
    world.look()
    asked = world.asked
    assert asked <= 2 * ASKS_PER_S_MAX
    world.put_all([("good", "https://good.example/")], namespace="good")
    world.pass_ms(2_000, 1_000)
    assert "good.example" in hosts(world)[asked : asked + 2 * int(ASKS_PER_S_MAX)]
    assert world.asked < len(EVIL)
    world.pass_ms(12_000, 1_000)
    assert len(set(hosts(world))) == len(EVIL) + 1
    tenants = {question.endpoint.tenant for question in world.targets.asked}
    assert tenants == {"evil", "good"}  # who take turns at the certificates too


def test_looks_that_hang_hold_up_no_other_namespace(world, runner):
    """All places are taken by names that are looked up for long; the next is for the other."""
    ended = asyncio.Semaphore(0)

    async def is_private(where) -> bool:
        world.targets.looked.append(where.host)
        if "evil" in where.host:
            await ended.acquire()
            raise TransportError("resolve", "no such name")
        return False

    async def scenario() -> None:
        await world.keeper.look()
        await asyncio.sleep(0)
        assert len(world.targets.looked) == ASKS_MAX
        world.put_all([("good", "https://good.example/")], namespace="good")
        await world.keeper.look()
        ended.release()
        while len(world.keeper._busy) == ASKS_MAX:  # noqa: ASYNC110 - nothing tells of a place
            await asyncio.sleep(0.01)
        await world.keeper.look()
        await asyncio.sleep(0)
        assert world.targets.looked[ASKS_MAX] == "good.example"
        for _ in range(1_000):
            ended.release()
        while world.keeper._busy or len(world.targets.looked) < ASKS_MAX + 21:
            await world.keeper.settle()
            await world.keeper.look()

    world.make(mode="public")
    world.targets.is_private = is_private
    world.put_all(EVIL[: ASKS_MAX + 20], namespace="evil")
    runner.run(scenario())


def test_namespaces_take_turns_at_one_host(world):
    """One that names a host of all thirty times waits for itself."""
    world.targets.answer = lambda _question: SILENT
    world.put_all(
        [(f"evil-{number}", f"https://all.example/evil/{number}") for number in range(30)],
        namespace="evil",
    )
    world.look()
    asked = world.asked
    world.put_all([("good", "https://all.example/good")], namespace="good")
    world.pass_ms(2_000 * HOST_INTERVAL_S, 500)
    paths = [question.endpoint.target for question in world.targets.asked]
    assert b"/good" in paths[asked : asked + 2]


def test_nobody_looks_at_questions_for_which_the_pace_has_no_room(monkeypatch):
    """However many wait, at however many hosts; looks go on meanwhile."""
    asked = []
    at_host = AskPace.free_at_s
    monkeypatch.setattr(
        AskPace, "free_at_s", lambda pace, host: asked.append(host) or at_host(pace, host)
    )
    line, taken = Line(), []
    for number in range(2_000):
        line.ask(f"evil-{number}", "evil", f"{number % 300}.example", 0.0)
    for tenth in range(600):
        line.look("good", "good")
        while (found := line.take(tenth / 10)) is not None:
            key, asks = found
            taken.append(key)
            line.end(key, asked=asks)
    assert taken.count("good") == 600
    questions = len(taken) - 600
    assert questions >= 1_000
    assert len(asked) <= 3 * questions


def test_a_target_that_is_replaced_during_its_look_is_asked(world, runner):
    """Its subscription was deleted and created again meanwhile."""
    gate = asyncio.Event()

    async def is_private(where) -> bool:
        world.targets.looked.append(where.host)
        await gate.wait()
        return False

    async def scenario() -> None:
        world.put(uid="uid-1")
        await world.keeper.look()
        await asyncio.sleep(0)
        world.delete()
        await world.keeper.look()
        world.put(uid="uid-2")
        await world.keeper.look()
        gate.set()
        await world.keeper.settle()

    world.make(mode="public")
    world.targets.is_private = is_private
    runner.run(scenario())
    assert world.asked == 0
    world.pass_ms(3_000, 1_000)
    assert world.asked == 1
