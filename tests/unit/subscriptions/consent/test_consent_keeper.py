"""The keeper of consents, in virtual time: whom it asks, when, and what it makes of the answers."""

import itertools

import pytest

from distributary.subscriptions.consent import OptionsReply
from distributary.subscriptions.consent._keeper import (
    DOUBT_MS,
)
from distributary.subscriptions.consent._steps import (
    BACKOFF_MS_FIRST,
    BACKOFF_MS_MAX,
    CONSENT_MS,
)
from kit.consent_world import DOWN, NO, ORIGIN, SILENT, START_MS, YES
from kit.servers import Authority


def test_a_new_target_is_asked_once(world):
    """The exact URI, in our name; what it allows is stored durably."""
    world.put()
    world.put("b")
    world.look()
    (question,) = world.targets.asked
    assert question.endpoint.target == b"/hook?code=canary"
    assert (question.origin, question.rate_per_min) == (ORIGIN, None)
    row = world.row()
    assert (row.state, row.rate_per_min, row.by_callback) == ("given", 120, False)
    assert row.until_ms == START_MS + CONSENT_MS
    world.pass_ms(3_600_000, 60_000)
    assert world.asked == 1


def test_dead_letter_sinks_are_asked_too(world):
    """Whatever gets our requests."""
    delivery = {"deadLetterSink": "https://dead.example/"}
    world.put(protocolsettings={"delivery": delivery})
    world.look()
    hosts = {question.endpoint.host for question in world.targets.asked}
    assert hosts == {"sink.example", "dead.example"}
    assert world.row("https://dead.example/").state == "given"


def test_a_question_is_shown_the_client_certificate(world, tmp_path):
    """Some sinks answer nobody without one; its key is in no text of the question."""
    files = Authority(tmp_path).server("own")
    pair = {"certificate": files.certificate.read_text(), "key": files.key.read_text()}
    world.put(sink="https://sink.example/", protocolsettings={"clientcertificate": pair})
    world.look()
    (question,) = world.targets.asked
    assert question.endpoint.client_certificate.key == pair["key"]
    assert "PRIVATE" not in repr(question.endpoint)


def test_other_protocols_are_not_asked(world):
    """The handshake is HTTP's."""
    world.put(sink="mqtt://broker.example/", protocol="MQTT5", protocolsettings={"topicname": "t"})
    world.look()
    assert world.asked == 0


def test_the_rate_of_all_subscriptions_is_asked_for(world):
    """Requests a minute of both, over both partitions; without a limit there is none to name."""
    for name, rate in (("a", 1.5), ("b", 0.25)):
        world.put(name, protocolsettings={"delivery": {"rateLimit": rate}})
    world.look()
    assert world.targets.asked[0].rate_per_min == 210
    world.put("c", sink="https://other.example/")
    world.look()
    assert world.targets.asked[1].rate_per_min is None


@pytest.mark.parametrize(
    ("answer", "state"), [(SILENT, "refused"), (NO, "refused"), (DOWN, "asked")]
)
def test_without_consent_it_asks_ever_more_rarely(world, answer, state):
    """Doubling, at most hourly, for as long as somebody subscribes."""
    world.targets.answer = lambda _question: answer
    world.put()
    times = []
    for _ in range(4 * 60 * 3):
        before = world.asked
        world.pass_ms(20_000)
        times += [world.clock.monotonic_s()] * (world.asked - before)
    gaps = [after - before for before, after in itertools.pairwise(times)]
    assert gaps[0] >= BACKOFF_MS_FIRST / 1000
    assert gaps == sorted(gaps)
    assert BACKOFF_MS_MAX / 1000 <= max(gaps) <= BACKOFF_MS_MAX / 1000 * 1.1 + 40
    row = world.row()
    assert (row.state, bool(row.reason)) == (state, True)
    assert "canary" not in row.reason


def test_a_target_that_never_answered_waits_since_it_was_first_asked(world):
    """Not since 1970; and later questions do not begin it anew."""
    world.targets.answer = lambda _question: DOWN
    world.put()
    world.look()
    first = world.row()
    assert (first.state, first.since_ms) == ("asked", first.asked_ms)
    world.pass_ms(60_000)
    assert world.row().asked_ms > first.asked_ms
    assert world.row().since_ms == first.since_ms


def test_a_restart_asks_neither_anew_nor_at_once(world):
    """Consent stays, and so does the wait after a refusal."""
    world.put()
    world.look()
    world.make()
    world.look()
    assert (world.asked, world.row().state) == (1, "given")
    world.targets.answer = lambda _question: NO
    world.put("b", sink="https://other.example/")
    world.look()
    world.make()
    world.look()
    assert world.asked == 2


def test_consent_is_renewed_before_it_ends(world):
    """And a target that is down just then keeps it until then, no longer."""
    world.put()
    world.look()
    world.targets.answer = lambda _question: DOWN
    world.pass_ms(CONSENT_MS * 0.85, 600_000)
    assert world.asked >= 2
    assert world.row().state == "given"
    world.pass_ms(CONSENT_MS * 0.16, 60_000)
    row = world.row()
    assert (row.state, row.until_ms) == ("asked", 0)
    world.targets.answer = lambda _question: YES
    world.pass_ms(BACKOFF_MS_MAX * 1.2, 60_000)
    assert world.row().state == "given"


@pytest.mark.parametrize("answer", [SILENT, NO, OptionsReply(410, [])])
def test_a_renewal_without_consent_withdraws_it(world, answer):
    """At once: it has answered."""
    world.put()
    world.look()
    world.targets.answer = lambda _question: answer
    world.pass_ms(CONSENT_MS * 0.85, 600_000)
    assert world.row().state == "refused"


@pytest.mark.parametrize("reason", ["status-401", "status-403", "attempts-used-up: status-410"])
def test_a_target_that_refuses_deliveries_is_asked_again(world, reason):
    """It may have withdrawn its consent; at most every five minutes."""
    world.put()
    world.look()
    world.targets.answer = lambda _question: SILENT
    world.failing = {"uid-a": reason, "uid-unknown": reason}
    world.pass_ms(DOUBT_MS - 1_000, 10_000)
    assert (world.asked, world.row().state) == (1, "given")
    world.pass_ms(2_000, 1_000)
    assert (world.asked, world.row().state) == (2, "refused")


def test_other_failures_raise_no_doubt(world):
    """A sink that is down has not withdrawn anything."""
    world.put()
    world.look()
    world.failing = {"uid-a": "status-503"}
    world.pass_ms(3 * DOUBT_MS, 60_000)
    assert world.asked == 1


def test_it_notes_who_waits_for_consent(world):
    """By what it knows of all targets of a route; a target has many routes."""
    world.targets.answer = lambda _question: NO
    world.put("a")
    world.put("b")
    world.look()
    awaited = world.agreements.awaited()
    assert awaited == dict.fromkeys(["uid-a", "uid-b"], ("https://sink.example/hook", START_MS))
    assert world.agreements.awaited() is awaited
    world.delete("b")
    world.look()
    assert set(world.agreements.awaited()) == {"uid-a"}
    assert not world.agreements.agreed("uid-a")
    world.targets.answer = lambda _question: YES
    world.pass_ms(BACKOFF_MS_FIRST * 2)
    assert (dict(world.agreements.awaited()), world.agreements.agreed("uid-a")) == ({}, True)
    dead = {"deadLetterSink": "https://dead.example/"}
    world.targets.answer = lambda _question: NO
    world.put("a", protocolsettings={"delivery": dead})
    world.look()
    assert world.agreements.awaited()["uid-a"].sink == "https://dead.example/"


def test_a_consent_to_another_name_is_none(world):
    """After a change of the settings: the target is as a new one."""
    world.put()
    world.look()
    assert world.agreements.agreed("uid-a")
    world.targets.answer = lambda _question: NO
    world.make(origin="other-name.example.com")
    world.look()
    assert set(world.agreements.awaited()) == {"uid-a"}
