"""Against RabbitMQ and Artemis: logins, TLS, refusals, crashes and silence."""

import asyncio

import pytest

from distributary.core.deliver.credential import Credential
from distributary.core.errors import TransportError
from distributary.testing.check_transport import an_event
from kit.amqp_checker import AmqpChecker
from kit.cutting_proxy import CuttingProxy, Fate, Way
from kit.servers import PASSWORD, USER, Authority
from kit.servers.artemis import BLOCKED, FORBIDDEN, FULL
from kit.servers.rabbitmq import LIMITED, READER

pytestmark = pytest.mark.slow

BROKERS = ("rabbitmq", "artemis")


def _at(server, address):
    """How the address of a queue is written there."""
    return f"/queue/{address}" if server.name == "rabbitmq" else address


def _word(answer):
    return answer.reason if isinstance(answer, TransportError) else answer.code


@pytest.fixture(params=BROKERS)
def broker(request):
    """Each broker in turn."""
    return request.getfixturevalue(request.param)


@pytest.mark.parametrize(
    ("name", "scheme"),
    # RabbitMQ's tunnel is not what RFC 6455 and AMQP's binding call one.
    [("rabbitmq", "amqps"), ("artemis", "amqps"), ("artemis", "wss")],
)
def test_delivers_over_tls(  # noqa: PLR0917 - fixtures
    request, run, way, until, address, name, scheme
):
    """With certificates that the sink's own CA has signed."""
    broker = request.getfixturevalue(name)

    async def scenario():
        async with way() as here, AmqpChecker(broker.port, _at(broker, address)) as checker:
            target = here.to(
                broker.tls_port,
                _at(broker, address),
                scheme=scheme,
                host="localhost",
                ca_certs=broker.authority.ca_certs,
                credential=here.login,
            )
            assert (await here.send(target)).code == "accepted"
            await until(lambda: checker.messages)
            assert checker.events() == [an_event()]

    run(scenario())


def test_refuses_certificates_that_it_cannot_verify(run, way, broker, address, tmp_path):
    """An unknown CA, and a name that the certificate is not for."""

    async def scenario():
        async with way() as here:
            for host, ca_certs in (
                ("localhost", Authority(tmp_path / "other").ca_certs),
                ("127.0.0.2", broker.authority.ca_certs),
            ):
                target = here.to(
                    broker.tls_port,
                    _at(broker, address),
                    scheme="amqps",
                    host=host,
                    ca_certs=ca_certs,
                    credential=here.login,
                )
                answer = await here.send(target)
                assert isinstance(answer, TransportError)
                # 127.0.0.2 has no listener everywhere: refused is as good.
                assert answer.reason in {"tls", "refused"}, str(answer)

    run(scenario())


@pytest.mark.parametrize(
    ("credential", "codes"),
    [
        (Credential("PLAIN", USER, "stale"), {"sasl-auth"}),
        (None, {"sasl-mechanism", "connection amqp:unauthorized-access"}),
    ],
    ids=["wrong-password", "anonymous"],
)
def test_a_login_that_is_refused_says_so(  # noqa: PLR0917 - fixtures
    run, way, broker, address, credential, codes
):
    """As an answer that is retried, without the secret."""

    async def scenario():
        async with way() as here:
            target = here.to(broker.port, _at(broker, address), credential=credential)
            answer = await here.send(target)
            assert answer.code in codes
            assert "stale" not in repr(answer)

    run(scenario())


def test_a_token_logs_in_as_a_password_where_nothing_better_is_offered(run, way, rabbitmq):
    """As RabbitMQ takes tokens: the password stands in for one here."""
    token = Credential("ACCESSTOKEN", USER, access_token=PASSWORD, access_token_type="Bearer")

    async def scenario():
        async with way() as here:
            target = here.to(rabbitmq.port, "/queue/tokens", credential=token)
            assert (await here.send(target)).code == "accepted"

    run(scenario())


def test_rabbitmq_refuses_addresses_and_users_and_others_go_on(run, way, rabbitmq, address):
    """Each of our links has its own session: the end of one is not the end of others."""

    async def scenario():
        async with way() as here:
            good = here.to(rabbitmq.port, f"/queue/{address}", credential=here.login)
            nowhere = here.to(rabbitmq.port, "/exchange/nowhere/key", credential=here.login)
            reader = Credential("PLAIN", READER, PASSWORD)
            forbidden = here.to(rabbitmq.port, "/queue/tokens", credential=reader)
            answers = await asyncio.gather(*map(here.start, (good, nowhere, forbidden, good)))
            assert [answer.code for answer in answers] == [
                "accepted",
                "link amqp:not-found",
                "link amqp:unauthorized-access",
                "accepted",
            ]

    run(scenario())


def test_a_full_queue_of_rabbitmq_costs_the_others_an_attempt_and_nothing_else(
    run, way, rabbitmq, address
):
    """RabbitMQ 3 breaks the connection instead of an answer; no event is taken for delivered."""

    async def scenario():
        async with way() as here:
            full = here.to(rabbitmq.port, f"/amq/queue/{LIMITED}", credential=here.login)
            good = here.to(rabbitmq.port, f"/queue/{address}", credential=here.login)
            assert (await here.send(good)).code == "accepted"
            answers = [await here.send(full) for _ in range(2)]
            assert isinstance(answers[-1], TransportError)
            assert answers[-1].reason == "reset"
            assert (await here.send(good)).code == "accepted"

    run(scenario())


def test_artemis_refuses_what_is_full_or_forbidden_and_holds_back_credit(
    run, way, artemis, address
):
    """Three addresses that do not take events, and one that does beside them."""

    async def scenario():
        async with way() as here:

            def to(name):
                return here.to(artemis.port, name, credential=here.login)

            forbidden = await here.send(to(FORBIDDEN))
            assert forbidden.code.endswith("amqp:unauthorized-access")
            full = await asyncio.gather(*[here.start(to(FULL)) for _ in range(3)])
            assert full[-1].code.endswith("amqp:resource-limit-exceeded")
            blocked = [here.start(to(BLOCKED), timeout_s=1.0) for _ in range(1_100)]
            assert (await here.send(to(address))).code == "accepted"
            answers = await asyncio.gather(*blocked)
            assert isinstance(answers[-1], TransportError)
            assert answers[-1].reason == "timeout"

    run(scenario())


def test_a_broker_that_is_killed_keeps_what_it_acknowledged(run, way, until, broker, address):
    """``kill -9`` with messages in flight: ``reset``, a new connection, all are in the queue."""

    async def scenario():
        async with way() as here:
            target = here.to(broker.port, _at(broker, address), credential=here.login)
            assert (await here.send(target, an_event(0))).code == "accepted"
            if broker.name == "rabbitmq":
                await until(lambda: broker.has_on_disk(address))
            flights = [here.start(target, an_event(number)) for number in range(1, 400)]
            await asyncio.sleep(0.02)
            await asyncio.to_thread(broker.kill)
            answers = await asyncio.gather(*flights)
            await asyncio.to_thread(broker.start)
            async with asyncio.timeout(60):
                again = await here.send(target, an_event(1_000))
                while isinstance(again, TransportError):
                    again = await here.send(target, an_event(1_000))
            assert again.code == "accepted"
            numbers = {"reset": [], "refused": [], "accepted": [0, 1_000]}
            for number, answer in enumerate(answers, 1):
                numbers[_word(answer)].append(number)  # there are no other answers
            missing = {f"check-{number}" for number in numbers["accepted"]}
            async with AmqpChecker(broker.port, _at(broker, address)) as checker:
                await until(
                    lambda: not missing.difference(e.attributes["id"] for e in checker.events()),
                    told=lambda: (sorted(missing), len(checker.messages), checker.ended),
                )

    run(scenario())


def test_a_broker_that_falls_silent_is_left_and_found_again(run, way, broker, address):
    """Its wire is half open: attempts time out, and when it is whole again events arrive."""

    async def scenario():
        with CuttingProxy(broker.port) as cut:
            async with way() as here:
                target = here.to(cut.port, _at(broker, address), credential=here.login)
                assert (await here.send(target)).code == "accepted"
                cut.cut(Fate.HOLD, Way.BACK)
                answer = await here.send(target, timeout_s=0.5)
                assert isinstance(answer, TransportError)
                assert answer.reason == "timeout"
                await asyncio.to_thread(cut.reset)
                cut.mend()
                assert (await here.send(target)).code == "accepted"

    run(scenario())
