"""What the sink does with the credit that a broker gives, and asks back."""

import asyncio

from distributary.testing.check_transport import an_event
from kit import fake_amqp
from kit.fake_amqp import FakeAmqp


def test_a_broker_that_asks_for_unused_credit_gets_it_back(run, way, until):
    """After what waited was sent (section 2.6.7): it may wait for that."""

    def on_link(link):
        link.accept()
        fake_amqp.drain(link, 9)

    def on_message(_link, incoming):
        incoming.settle(fake_amqp.ACCEPTED)

    async def scenario():
        async with FakeAmqp(on_message, on_link) as peer, way() as here:
            target = here.to(peer.port)
            answers = await asyncio.gather(*[here.start(target, an_event(n)) for n in range(3)])
            assert {answer.code for answer in answers} == {"accepted"}
            await until(lambda: not fake_amqp.is_draining(peer.links[0]))
            late = here.start(target, timeout_s=0.3)
            assert (await late).reason == "timeout", "its credit is gone"
            assert len(peer.messages) == 3

    run(scenario())
