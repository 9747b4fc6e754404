"""Brokers that die, come back, are cut off or fall silent while events are under way."""

import asyncio

import uvloop

from distributary.core.errors import TransportError
from distributary.core.policy import delivered
from distributary.testing.check_transport import an_event
from kit.cutting_proxy import CuttingProxy
from kit.mqtt_checker import MqttChecker
from kit.servers.mosquitto import Mosquitto


async def _insist(it, destination, numbers, tries=60):
    """Send until each is acknowledged, as the pipeline does; how many attempts it took."""
    left, attempts = list(numbers), 0
    for _ in range(tries):
        tasks = [(n, it.start(destination, an_event(n), timeout_s=2.0)) for n in left]
        attempts += len(tasks)
        left = [n for n, task in tasks if not delivered(await task)]
        if not left:
            return attempts
        await asyncio.sleep(0.1)
    raise AssertionError(f"{len(left)} were never delivered")


def test_a_broker_that_is_killed_loses_nothing(way, authority, topic):
    """What was in flight is reset, and delivered once the broker is back; its subscribers too."""

    async def scenario(server):
        async with way() as it:
            destination = it.to(server.port, topic)
            assert delivered(await it.send(destination, an_event(1_000)))
            server.pause()  # so that everything is in flight when it dies
            tasks = [it.start(destination, an_event(n), timeout_s=60.0) for n in range(100)]
            await asyncio.sleep(0.2)
            await asyncio.to_thread(server.kill)
            answers = [await task for task in tasks]
            assert all(isinstance(answer, TransportError) for answer in answers)
            assert {answer.reason for answer in answers} == {"reset"}
            away = await it.send(destination)
            assert away.reason in {"refused", "reset"}
            await asyncio.to_thread(server.start)
            with MqttChecker(server.port, topic) as checker:
                await _insist(it, destination, range(100))
                await it.until(lambda: len(checker.seen) >= 100)
        return checker

    with Mosquitto(authority) as server:
        checker = uvloop.run(scenario(server))
    ids = {event.attributes["id"] for event in checker.events()}
    assert ids >= {f"check-{number}" for number in range(100)}


def test_cuts_lose_nothing(mosquitto, way, topic):
    """Five of them, in the middle of it; what comes twice was in flight."""

    async def scenario():
        with CuttingProxy(mosquitto.port) as cut, MqttChecker(mosquitto.port, topic) as checker:
            async with way() as it:
                destination = it.to(cut.port, topic)
                attempts = 0
                for turn in range(5):
                    numbers = range(turn * 200, turn * 200 + 200)
                    sending = asyncio.ensure_future(_insist(it, destination, numbers))
                    await asyncio.sleep(0.01)
                    await asyncio.to_thread(cut.reset)
                    attempts += await sending
                ids = {f"check-{number}" for number in range(1_000)}
                await it.until(lambda: {e.attributes["id"] for e in checker.events()} >= ids)
                assert len(checker.seen) <= attempts
                assert cut.connections > 1

    uvloop.run(scenario())


def test_a_broker_that_falls_silent_is_left(way, authority, topic):
    """Attempts end at their deadlines, and a new connection is made when it is back."""

    async def scenario(server):
        async with way() as it:
            destination = it.to(server.port, topic)
            assert delivered(await it.send(destination))
            server.pause()
            answer = await it.send(destination, timeout_s=1.1)
            assert answer.reason == "timeout"
            server.resume()
            await _insist(it, destination, range(10))

    with Mosquitto(authority) as server:
        uvloop.run(scenario(server))


def test_a_broker_that_is_away_does_not_hold_up_another(mosquitto, way, authority, topic):
    """One transport, two brokers, one of them silent."""

    async def scenario(silent):
        async with way() as it:
            silent.pause()
            waiting = [it.start(it.to(silent.port, topic), timeout_s=60.0) for _ in range(300)]
            for number in range(50):
                answer = await it.send(it.to(mosquitto.port, topic), an_event(number))
                assert delivered(answer)
            silent.resume()
            for task in waiting:
                await task

    with Mosquitto(authority) as silent:
        uvloop.run(scenario(silent))
