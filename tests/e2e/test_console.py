"""The console in a real browser, with an API that answers anything."""

import hashlib
import json
import lzma
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from distributary.server.console import BYTES_MAX
from kit.browser import Browser
from kit.console_api import KEY, ConsoleApi

pytestmark = pytest.mark.slow

AXE = Path(__file__).parents[1] / "kit" / "axe" / "axe.min.js.xz"
AXE_SHA256 = "29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c"

PAGES = {
    "": "Needs attention",
    "subscriptions": "Deliveries/s",
    "subscriptions/orders-0": "Configuration",
    "events": "Newest first",
    "events/0-0-0": "Its way",
    "dead-letters": "Redrive…",
    "dead-letters/0-0": "The event",
    "runs": "Passed over",
    "runs/run-1": "At most a second",
    "graph": "Triggers and Subscriptions",
    "publish": "Further attributes",
    "filter": "Verdicts",
}
"""Page -> what it shows once it has what it asked for."""

HOSTILE = (
    "\u202egnp.exe\u2066\u200f\u0000\u001b[31m\U000e0041"
    '"\'><img src=x onerror="alert(1)"><script>alert(2)</script><svg/onload=alert(3)>'
    "javascript:alert(4)//{{7*7}}"
)
"""Marks that turn the text around them, controls, what does not show; markup and scripts."""

LONG = "A" * 65_536


@pytest.fixture
def page(browser: Browser) -> Iterator[Browser]:
    """The browser, in an ordinary window; the test must leave no error behind."""
    browser.look()
    browser.events.clear()
    yield browser
    assert browser.errors() == []


def go(page: Browser, name: str) -> None:
    """Go to a page of the console, as a link of it does."""
    page.run("document.getElementById('main').replaceChildren()")
    page.run(f"location.hash = {json.dumps('#/other')}")
    page.run(f"location.hash = {json.dumps('#/' + name)}")
    page.wait_for(PAGES[name])


def open_console(page: Browser, api: ConsoleApi) -> None:
    """Open the console and wait for its first page."""
    page.open(api.url)
    page.wait("document.querySelector('h1')")


def test_every_page_is_clear_to_everybody(page: Browser) -> None:
    """Axe-core finds nothing, in light and in dark; all of it loads in few bytes."""
    source = lzma.decompress(AXE.read_bytes())
    assert hashlib.sha256(source).hexdigest() == AXE_SHA256
    with ConsoleApi() as api:
        open_console(page, api)
        page.wait_for("Needs attention")
        assert 0 < page.bytes_loaded() < BYTES_MAX
        beside = page.isolated()
        page.run(source.decode(), beside)
        for name in PAGES:
            go(page, name)
            for dark in (False, True):
                page.look(dark=dark)
                asked = "axe.run(document, {resultTypes: ['violations']})"
                shown = "v => [v.id, v.impact, v.nodes.map(n => n.html.slice(0, 200))]"
                found = page.run(f"{asked}.then(r => r.violations.map({shown}))", beside)
                assert found == [], (name, dark)
        page.run("document.querySelector('label').remove()")
        assert page.run(f"{asked}.then(r => r.violations.length)", beside) == 1  # it can fail


def test_whether_all_is_well_is_said_first(page: Browser) -> None:
    """A server that is not ready says so before the numbers, which may look calm."""
    with ConsoleApi() as api:
        open_console(page, api)
        page.wait_for("1 subscription fails. 3 dead letters are kept.")
        api.not_ready = "the pipeline is starting"
        page.wait_for("The server is not ready: the pipeline is starting. 1 subscription fails.")
        first = (
            "document.querySelector('main h2 + div').textContent.startsWith('The server is not')"
        )
        assert page.run(first)
        page.events.clear()  # the browser tells of an answer 503


def test_other_namespaces_are_looked_at_where_something_may_be_wrong(page: Browser) -> None:
    """The first line is of one: whoever may see several asks about all, and goes there."""
    calm = {"failing": 0, "lagging": 0, "disabled": 0, "parked": 0, "deadLetters": 0}
    calm |= {"awaiting-consent": 0}
    with ConsoleApi() as api:
        api.numbers = calm
        api.elsewhere = {"bank": {"failing": 2}, "shop": {}}
        open_console(page, api)
        page.wait_for("All is well in the namespace default: nothing fails there")
        page.click("Look at other namespaces")
        page.wait(
            "[...document.querySelectorAll('main td button')].map(e => e.textContent).join()"
            " === 'bank'"
        )
        page.click("bank")
        page.wait_for("2 subscriptions fail.")


def test_a_run_of_chosen_dead_letters_is_not_said_to_be_of_all(page: Browser) -> None:
    """Their ids are counted, in the list and on its page."""
    with ConsoleApi() as api:
        api.run = {"ids": ["0-1", "0-2"]}
        open_console(page, api)
        for name in ("runs", "runs/run-1"):
            go(page, name)
            page.wait_for("2 ids")


def test_one_subscription_is_asked_about_where_there_are_more(page: Browser) -> None:
    """The way of the event, to that one alone."""
    with ConsoleApi() as api:
        open_console(page, api)
        go(page, "events/0-0-0")
        page.fill("subscription", "orders-0")
        page.click("Ask")
        page.wait("document.querySelectorAll('main .lane').length === 4")  # two of them twice
        assert api.asked.count(("GET", "/events/0-0-0", b"")) == 2


def test_a_narrow_window_breaks_no_word(page: Browser) -> None:
    """Tables scroll in their frames; the page itself does not, and no text stands upright."""
    page.look(width=390, height=844)
    with ConsoleApi() as api:
        open_console(page, api)
        for name in PAGES:
            go(page, name)
            look = page.run(
                "({wide: document.documentElement.scrollWidth - innerWidth,"
                " upright: [...document.querySelectorAll('td .data')]"
                ".filter(e => e.offsetHeight > 3 * e.offsetWidth).map(e => e.textContent)})"
            )
            assert look == {"wide": 0, "upright": []}, name


def test_a_subscription_shows_its_newest_attempts(page: Browser) -> None:
    """Whatever other events came since, each with its event."""
    with ConsoleApi() as api:
        open_console(page, api)
        go(page, next(name for name in PAGES if name.startswith("subscriptions/")))
        page.click("Show its newest attempts")
        page.wait_for("<html>oops</html>")
        page.click("Refresh")
        page.wait_for("<html>oops</html>")
        assert page.run("document.querySelector('a[href=\"#/events/0-0-0\"]').textContent") == "e-1"


def test_a_list_that_is_drawn_anew_leaves_the_keyboard_where_it_is(page: Browser) -> None:
    """On *Next* and *Previous*, every three seconds and after they were pressed."""
    focused = "document.activeElement.textContent"
    with ConsoleApi() as api:
        api.parted = "/subscriptions"
        open_console(page, api)
        go(page, "subscriptions")
        page.wait_for("Page 1")
        page.run("[...document.querySelectorAll('.pager button')].at(-1).focus()")
        page.run("globalThis.drawn = document.activeElement; undefined")
        page.wait("!globalThis.drawn.isConnected")
        assert page.run(focused) == "Next"
        page.run("document.activeElement.click()")
        page.wait_for("Page 2")
        assert page.run(focused) == "Previous"  # there is no further part
        page.run("document.activeElement.click()")
        page.wait_for("Page 1")
        assert page.run(focused) == "Next"


@pytest.mark.parametrize("text", [HOSTILE, LONG], ids=["markup", "long"])
def test_what_others_wrote_shows_as_text_and_runs_nothing(page: Browser, text: str) -> None:
    """In every field of every answer: no element, no link to elsewhere, no turned text."""
    with ConsoleApi(lambda good: good + text) as api:
        open_console(page, api)
        for name in PAGES:
            go(page, name)
            for button in ("Show its newest attempts", "Show its dead letters"):
                if name.startswith("subscriptions/"):
                    page.click(button)
                    page.wait_for("Refresh")
            if name == "filter":
                page.click("Try")
                page.wait_for("events pass")
            if name == "publish":
                page.click("Publish")
                page.wait_for("It is on disk")
            look = page.run(
                "({elements: [...document.querySelectorAll('img, iframe, object, embed, video,"
                " audio, base, meta[http-equiv], style, form[action]')].length,"
                " scripts: document.scripts.length,"
                " handlers: [...document.querySelectorAll('*')].filter(e =>"
                " e.getAttributeNames().some(n => n.startsWith('on') || n === 'style')).length,"
                " links: [...document.querySelectorAll('a')].map(a => a.getAttribute('href'))"
                ".filter(h => !h.startsWith('#')).length,"
                " longest: Math.max(...[...document.querySelectorAll('td, h1, dd, p, li > code')]"
                ".map(e => e.textContent.length)),"
                " wide: document.documentElement.scrollWidth - innerWidth,"
                " text: document.body.textContent})"
            )
            assert look["scripts"] == 1
            assert (look["elements"], look["handlers"], look["links"]) == (0, 0, 0), name
            assert not re.search("[\u202a-\u202e\u2066-\u2069\u200f\u0000\u001b]", look["text"])
            assert look["longest"] < 3_000, name
            assert look["wide"] <= 0, name
            if text is HOSTILE and name not in {"publish", "filter"}:
                assert "<img src=" in look["text"], name
                assert "\u27e8U+202E\u27e9" in look["text"], name


def test_a_key_lives_in_the_memory_of_the_tab_alone(page: Browser) -> None:
    """Not in a cookie, not in storage, not in the URL; and a reload forgets it."""
    with ConsoleApi(key=KEY) as api:
        open_console(page, api)
        page.wait_for("Show a key")
        for wrong in ("dk_wrong", "dk_\u2026copied"):  # the second fits in no header
            page.fill("key", wrong)
            page.click("Continue")
            page.wait_for("does not know this key")
        page.fill("key", KEY)
        page.click("Continue")
        page.wait_for("Needs attention")
        page.click("Dark")
        go(page, "dead-letters")
        kept = page.run(
            "indexedDB.databases().then(bases => caches.keys().then(stores => ({bases, stores,"
            " cookie: document.cookie, name: window.name, url: location.href,"
            " state: JSON.stringify(history.state), session: sessionStorage.length,"
            " local: JSON.stringify(localStorage), markup: document.documentElement.outerHTML})))"
        )
        assert json.loads(kept.pop("local")) == {"distributary.theme": "dark"}
        assert KEY not in json.dumps(kept)
        assert (kept["bases"], kept["stores"], kept["cookie"], kept["session"]) == ([], [], "", 0)
        assert all(KEY not in path for _, path, _ in api.asked)
        for told in page.told("Network.requestWillBeSent"):
            assert KEY not in told["request"]["url"]
        page.run("localStorage.clear()")
        page.call("Page.reload")
        page.wait_for("Show a key")


def test_dead_letters_are_sent_again_by_keyboard_alone(page: Browser) -> None:
    """Skip link, pages, choice, dialog, run: each is reached by Tab, and shows its focus."""
    with ConsoleApi() as api:
        open_console(page, api)
        page.wait_for("Needs attention")
        page.press("Tab")
        assert page.run("document.activeElement.textContent") == "Skip to the content"
        page.tab_to("e.textContent === 'Dead letters' && e.closest('nav')")
        assert page.run("getComputedStyle(document.activeElement).outlineStyle") == "solid"
        page.press("Enter")
        page.wait_for("Redrive…")
        page.wait("document.querySelectorAll('td input').length === 3")
        page.tab_to("e.type === 'checkbox' && e.closest('td')")
        page.press("Space")
        page.wait_for("1 chosen")
        for _ in range(40):
            if page.run("document.activeElement.textContent") == "Redrive…":
                break
            page.press("Tab", shift=True)
        page.press("Enter")
        page.wait_for("Send them again?")
        page.tab_to("e.name === 'dryRun'")
        page.press("Space")
        page.tab_to("e.textContent === 'Redrive'")
        page.press("Enter")
        page.wait_for("Passed over")
        method, path, body = next(asked for asked in api.asked if asked[0] == "POST")
        assert (method, path) == ("POST", "/dead-letters/redrive")
        assert json.loads(body) == {"ids": ["0-0"], "dryRun": True}


def test_only_buttons_that_do_something_are_shown(page: Browser) -> None:
    """One that is paused can be resumed, and not paused again; the keyboard keeps its place."""
    shown = (
        "[...document.querySelectorAll('.heading button')].filter(e => e.checkVisibility())"
        ".map(e => e.textContent).slice(0, 2).join()"
    )
    with ConsoleApi() as api:
        open_console(page, api)
        go(page, "subscriptions/orders-0")
        page.wait(f"{shown} === 'Resume,Enable'")
        for pressed, then in (
            ("Resume", "Pause,Enable"),
            ("Enable", "Pause,Disable"),
            ("Disable", "Pause,Enable"),
            ("Pause", "Resume,Enable"),
        ):
            page.click(pressed)
            page.wait(f"{shown} === {json.dumps(then)}")
        done = [path.rpartition("/")[2] for method, path, _ in api.asked if method == "POST"]
        assert done == ["resume", "enable", "disable", "pause"]
        page.tab_to("e.textContent === 'Resume'")
        page.press("Enter")
        page.wait(f"{shown} === 'Pause,Enable'")
        page.wait("document.activeElement.textContent === 'Pause'")


def test_what_waits_for_consent_is_seen(page: Browser) -> None:
    """On the first page, of a Trigger, and of a subscription, whose sinks can be asked again."""
    with ConsoleApi() as api:
        api.numbers = {"failing": 0, "deadLetters": 0, "awaiting-consent": 2}
        api.conditions = [
            {"type": "Ready", "status": "True"},
            {
                "type": "DeliveriesSucceeding",
                "status": "False",
                "reason": "AwaitingConsent",
                "message": "it must consent",
            },
        ]
        api.halted = {"state": "awaiting-consent"}
        open_console(page, api)
        page.wait_for("2 subscriptions wait for their sinks' consent.")
        go(page, "graph")
        page.wait_for("it must consent")
        assert page.run("document.querySelectorAll('.way .node.busy').length") > 0
        go(page, "subscriptions/orders-0")
        page.click("Ask for consent")
        page.wait_for("its sinks are asked")
        assert ("POST", "/subscriptions/orders-0/resume", b"") in api.asked


def test_times_of_day_are_those_of_the_server(page: Browser) -> None:
    """In UTC, wherever the browser is; those of another day have their date."""
    with ConsoleApi() as api:
        page.call("Emulation.setTimezoneOverride", timezoneId="Asia/Tokyo")
        try:
            open_console(page, api)
            go(page, "events")
            cell = "document.querySelector('td time')"
            page.wait(cell)
            shown, whole = page.run(f"[{cell}.textContent, {cell}.dateTime]")
            assert whole.replace("T", " ").endswith(shown)
            assert shown.endswith("Z")
            go(page, "")
            axis = "[...document.querySelectorAll('.chart text')].map(e => e.textContent)"
            page.wait(f"{axis}.some(text => text.length === 9 && text.endsWith('Z'))")
        finally:
            page.call("Emulation.setTimezoneOverride", timezoneId="")


def test_a_server_that_is_away_leaves_nothing_that_looks_well(page: Browser) -> None:
    """No state and no number of before; it is seen again without a click."""
    rates = {"latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
    with ConsoleApi() as api:
        open_console(page, api)
        for name, shown in (("", "1 subscription fails"), ("subscriptions/orders-0", "failing")):
            go(page, name)
            page.wait_for(shown)
            page.call("Network.emulateNetworkConditions", offline=True, **rates)
            page.wait_for("the server cannot be reached")
            page.wait("!document.querySelector('.tile, .heading .badge.bad')")
            page.call("Network.emulateNetworkConditions", offline=False, **rates)
            page.wait_for(shown)
