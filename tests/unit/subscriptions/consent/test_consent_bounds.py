"""The keeper of consents: callbacks, changing settings, bounds, and what must not leak."""

import asyncio
import contextlib
from urllib.parse import parse_qs, urlsplit

import structlog

from distributary.core import periodic
from distributary.core.errors import TransportError
from distributary.subscriptions.consent import _keeper
from distributary.subscriptions.consent._keeper import (
    AGAIN_MS_MIN,
    ASKS_MAX,
    CALLBACK_KEY_MS,
    KEPT_MS,
)
from distributary.subscriptions.consent._steps import (
    BACKOFF_MS_FIRST,
    BACKOFF_MS_MAX,
    CALLBACK_CONSENT_MS,
    CONSENT_MS,
    PRIVATE_LOOK_MS,
)
from distributary.subscriptions.store.consent_rows import CallbackConsent
from kit.consent_world import NO, SILENT, START_MS, YES


def test_a_callback_consents_later(world):
    """The URL is ours, with a key of its own; a later silence does not withdraw it."""
    world.targets.answer = lambda _question: SILENT
    world.put()
    world.look()
    url = urlsplit(world.targets.asked[0].callback)
    name, (key,) = url.path.rpartition("/")[2], parse_qs(url.query)["key"]
    assert url.geturl().startswith("https://events.example.com/consent/")
    assert len(key) >= 43
    now_ms = world.clock.wall_ms()
    allowed = CallbackConsent(30, now_ms, now_ms + CALLBACK_CONSENT_MS, now_ms + CONSENT_MS)
    assert world.store.confirm(name, key, allowed) is not None
    world.pass_ms(CONSENT_MS + 700_000, 600_000)
    assert world.asked >= 2
    row = world.row()
    assert (row.state, row.rate_per_min) == ("given", 30)
    world.targets.answer = lambda _question: NO
    world.pass_ms(BACKOFF_MS_MAX * 1.2, 600_000)
    assert world.row().state == "refused"


def test_a_callback_during_the_question_is_not_lost(world, runner):
    """The target may consent before it answers, without the header."""

    async def scenario():
        world.targets.gate = asyncio.Event()
        world.targets.answer = lambda _question: SILENT
        world.put()
        await world.keeper.look()
        while not world.targets.asked:  # noqa: ASYNC110 - a thread brings it
            await asyncio.sleep(0.01)
        url = urlsplit(world.targets.asked[0].callback)
        key = parse_qs(url.query)["key"][0]
        now_ms = world.clock.wall_ms()
        allowed = CallbackConsent(None, now_ms, now_ms + CONSENT_MS, now_ms + CONSENT_MS)
        assert world.store.confirm(url.path.rpartition("/")[2], key, allowed) is not None
        world.targets.gate.set()
        await world.keeper.settle()

    runner.run(scenario())
    world.look()
    assert world.row().state == "given"


def test_callback_keys_are_renewed_and_end(world):
    """One key for half its life; the one before stays valid to its end."""
    world.targets.answer = lambda _question: SILENT
    world.put()
    world.pass_ms(CALLBACK_KEY_MS * 2, 300_000)
    urls = list(dict.fromkeys(question.callback for question in world.targets.asked))
    assert len(urls) in (4, 5)
    wall_ms = world.clock.wall_ms()
    assert all(wall_ms - 3_700_000 < key.until_ms for key in world.row().callbacks)
    assert len(world.row().callbacks) <= 3


def test_no_callback_is_offered_where_nobody_can_call(world):
    """Without public_url."""
    world.make(base=None)
    world.put()
    world.look()
    assert world.targets.asked[0].callback is None


def test_private_targets_are_looked_at_and_not_asked(world):
    """Where the mode is public; and one that has become public is asked."""
    world.make(mode="public")
    world.targets.private = {"inside.example"}
    world.put(sink="http://inside.example/")
    world.put("b")
    world.look()
    assert [question.endpoint.host for question in world.targets.asked] == ["sink.example"]
    assert world.row("http://inside.example/").state == "private"
    world.targets.private = set()
    world.pass_ms(PRIVATE_LOOK_MS * 1.2, 60_000)
    assert world.row("http://inside.example/").state == "given"


def test_a_target_whose_name_is_not_found_is_looked_at_again(world):
    """It has given no answer until then."""

    async def is_private(_where):
        raise TransportError("dns", "no such name")

    world.make(mode="public")
    look, world.targets.is_private = world.targets.is_private, is_private
    world.put()
    world.look()
    row = world.row()
    assert (world.asked, row.state, row.reason) == (0, "asked", "no answer (dns)")
    world.targets.is_private = look
    world.pass_ms(BACKOFF_MS_FIRST * 1.2)
    assert world.row().state == "given"


def test_many_private_targets_at_one_host_are_not_paced(world):
    """Nothing is asked of them."""
    world.make(mode="public")
    world.targets.private = {"inside.example"}
    for number in range(40):
        world.put(f"s{number}", sink=f"http://inside.example/{number}")
    world.look()
    assert all(world.row(f"http://inside.example/{n}").state == "private" for n in range(40))


def test_always_asks_private_targets_too(world):
    """Also those that were private before the setting changed."""
    world.make(mode="public")
    world.targets.private = {"inside.example"}
    world.put(sink="http://inside.example/")
    world.look()
    world.make(mode="always")
    world.look()
    assert (world.asked, world.row("http://inside.example/").state) == (1, "given")


def test_another_name_of_ours_needs_another_consent(world):
    """Consent is to an origin."""
    world.put()
    world.look()
    world.targets.answer = lambda _question: SILENT
    world.make(origin="new.example.com")
    world.look()
    assert world.targets.asked[1].origin == "new.example.com"
    row = world.row()
    assert (row.state, row.origin, row.rate_per_min) == ("refused", "new.example.com", None)


def test_never_forgets_all(world, runner):
    """Whoever switches it on again asks again."""
    world.put()
    world.look()
    world.make(mode="never")
    runner.run(world.keeper.run())
    assert not world.knows()
    assert world.asked == 1


def test_a_changed_subscription_brings_the_question_forward(world):
    """Its owner may have mended the target; not before ten seconds have passed."""
    world.targets.answer = lambda _question: SILENT
    world.put()
    world.pass_ms(3 * BACKOFF_MS_MAX, 60_000)
    count = world.asked
    world.targets.answer = lambda _question: YES
    world.put(config={"expires": "2099-01-01T00:00:00Z"})
    world.look()
    assert (world.asked, world.row().state) == (count + 1, "given")


def test_a_resume_brings_the_question_forward(world):
    """As operators resume a parked subscription."""
    world.targets.answer = lambda _question: SILENT
    world.put()
    world.pass_ms(3 * BACKOFF_MS_MAX, 60_000)
    count = world.asked
    world.store.demand("resume", "uid-a", "r1", 5)
    world.look()
    assert world.asked == count + 1
    world.store.demand("resume", "uid-a", "r2", 6)
    world.look()
    assert world.asked == count + 1
    world.pass_ms(AGAIN_MS_MIN + 1_000, 1_000)
    assert world.asked == count + 2


def test_a_resume_asks_again_whether_consent_stands(world):
    """So an operator need not wait a day for what a target says now."""
    world.put()
    world.look()
    world.targets.answer = lambda _question: NO
    world.pass_ms(AGAIN_MS_MIN + 1_000)
    assert world.asked == 1
    world.store.demand("resume", "uid-a", "r1", 5)
    world.look()
    assert (world.asked, world.row().state) == (2, "refused")


def test_deleting_and_creating_brings_no_more_questions(world):
    """The wait outlives the subscription; then its row is deleted."""
    world.targets.answer = lambda _question: SILENT
    for turn in range(5):
        world.put(uid=f"uid-{turn}")
        world.look()
        world.delete()
        world.look()
    assert world.asked == 1
    world.clock.move_to(world.clock.monotonic_s() + KEPT_MS / 1000 + 1)
    world.put("b", sink="https://other.example/")
    world.look()
    assert not world.knows()


def test_one_host_is_asked_in_intervals(world):
    """Whatever paths are named there."""
    for number in range(30):
        world.put(f"s{number}", sink=f"https://victim.example/{number}")
    world.look()
    assert world.asked <= 5
    world.pass_ms(60_000, 1_000)
    assert 20 <= world.asked <= 26


def test_changes_do_not_hurry_a_question_that_has_its_time(world):
    """Whoever changes a subscription again and again floods nobody."""
    for turn in range(3):
        for number in range(20):
            expires = {"expires": f"209{turn}-01-01T00:00:00Z"}
            world.put(f"s{number}", sink=f"https://victim.example/{number}", config=expires)
        world.look()
    assert world.asked <= 5


def test_questions_in_flight_are_bounded(world, runner):
    """Silent targets take so many places, and no more."""

    async def scenario():
        world.targets.gate = asyncio.Event()
        for number in range(ASKS_MAX + 20):
            world.put(f"s{number}", sink=f"https://silent-{number}.example/")
        for _ in range(6):
            await world.keeper.look()
            world.clock.move_to(world.clock.monotonic_s() + 5)
            for _ in range(20):
                await asyncio.sleep(0.01)
        assert len(world.targets.asked) <= ASKS_MAX
        assert len(world.targets.asked) > ASKS_MAX // 2
        world.targets.gate.set()
        await world.keeper.settle()

    runner.run(scenario())


def test_a_wall_clock_that_is_set_hides_nothing_for_long(world):
    """Back by a day: the look within ten minutes finds what is due."""
    world.put()
    world.look()
    world.clock.jump(2 * CONSENT_MS)
    world.pass_ms(700_000, 60_000)
    assert world.asked == 2
    assert world.row().until_ms > START_MS + 2 * CONSENT_MS


def test_a_bug_stops_one_target_alone(world):
    """And is said, without what the target sent."""

    def answer(question):
        if question.endpoint.host == "sink.example":
            raise RuntimeError("canary")
        return YES

    world.targets.answer = answer
    world.put()
    world.put("b", sink="https://other.example/")
    with structlog.testing.capture_logs() as lines:
        world.look()
    assert world.row("https://other.example/").state == "given"
    assert "canary" not in str(lines)
    assert any(line["event"] == "consent-not-asked" for line in lines)


def test_lines_show_no_secret_of_the_uri(world):
    """Nor the callback's key."""
    world.targets.answer = lambda _question: SILENT
    with structlog.testing.capture_logs() as lines:
        world.put()
        world.look()
    key = parse_qs(urlsplit(world.targets.asked[0].callback).query)["key"][0]
    assert lines
    assert "canary" not in str(lines)
    assert key not in str(lines)
    assert key not in repr(world.targets.asked[0])


def test_questions_are_counted(world):
    """By what came of them."""
    world.put()
    world.targets.answer = lambda question: YES if question.endpoint.host == "sink.example" else NO
    world.put("b", sink="https://other.example/")
    world.look()
    counters = world.meter.counters
    found = {name: count for name, count in counters.items() if name.startswith("consent")}
    assert found == {
        'consent_questions_total{result="given"}': 1,
        'consent_questions_total{result="withheld"}': 1,
        'consent_questions_total{result="private"}': 0,
        'consent_questions_total{result="failed"}': 0,
    }


def test_it_stops_while_a_target_is_silent(world, runner, monkeypatch):
    """A question in flight is given up; nothing is left running."""
    monkeypatch.setattr(periodic, "STOP_S", 0.05)

    async def scenario():
        world.targets.gate = asyncio.Event()
        world.put()
        task = asyncio.create_task(world.keeper.run())
        while not world.targets.asked:  # noqa: ASYNC110 - a thread brings it
            await asyncio.sleep(0.01)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    runner.run(scenario())
    assert world.row().state == "asked"


def test_questions_go_on_although_a_look_met_a_bug(world, runner, monkeypatch):
    """Nothing starts the loop again: it tells of the bug, and looks again."""
    monkeypatch.setattr(_keeper, "LOOK_S", 0.001)
    read, faults = world.rows.changed, [LookupError("a bug")]

    def changed(after_seq):
        if faults:
            raise faults.pop()
        return read(after_seq)

    monkeypatch.setattr(world.rows, "changed", changed)

    async def scenario():
        world.put()
        task = asyncio.create_task(world.keeper.run())
        while not task.done() and not world.targets.asked:  # noqa: ASYNC110 - a thread brings it
            await asyncio.sleep(0.002)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    with structlog.testing.capture_logs() as lines:
        runner.run(scenario())
    told = [(line["event"], line["loop"]) for line in lines if "loop" in line]
    assert told == [("turn-failed", "consents")]
    assert len(world.targets.asked) == 1
