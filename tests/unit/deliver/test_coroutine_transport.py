"""What the adapter does with clients that misbehave; the rest is in the contract suite."""

import asyncio

from distributary.deliver import Destination, from_coroutine
from distributary.event import Event

EVENT = Event({"specversion": "1.0", "id": "1", "source": "/", "type": "t"}, None)


async def nothing():
    """Close a client that has nothing to close."""


def test_a_bug_of_a_client_ends_the_attempt_and_is_reported():
    """The lane goes on, and the bug is seen by the loop's handler."""

    async def buggy(_event, _destination):
        raise ZeroDivisionError

    async def scenario():
        seen = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: seen.append(context["exception"]))
        answer = loop.create_future()
        transport = from_coroutine(buggy, nothing)
        transport.send(EVENT, Destination("memory:"), 1.0, answer.set_result)
        return await answer, seen

    answer, seen = asyncio.run(scenario())
    assert answer.reason == "protocol"
    assert isinstance(seen[0], ZeroDivisionError)


def test_a_timeout_of_the_clients_own_is_a_timeout():
    """Also when it comes before ours."""

    async def impatient(_event, _destination):
        raise TimeoutError("its own")

    async def scenario():
        answer = asyncio.get_running_loop().create_future()
        transport = from_coroutine(impatient, nothing)
        transport.send(EVENT, Destination("memory:"), 1.0, answer.set_result)
        return await answer

    answer = asyncio.run(scenario())
    assert answer.reason == "timeout"
    assert "its own" in str(answer)
