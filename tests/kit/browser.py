"""A headless Chromium that a test drives, by the DevTools protocol: looks, types, takes pictures.

Callers: end-to-end tests of pages. Hides: the program, its profile, the protocol and waiting.
"""

import base64
import contextlib
import json
import os
import shutil
import signal
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from websockets.sync.client import ClientConnection, connect

WAIT_S_MAX: Final = 60.0
"""Longest wait for anything that a page does: a browser begins in a few seconds."""

PROGRAM: Final = "chromium"

_FLAGS: Final = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-sync",
    "--disable-component-update",
    "--hide-scrollbars",
    "--remote-debugging-port=0",
)
_KEYS: Final = {
    "Enter": (13, "\r"),
    "Tab": (9, ""),
    "Escape": (27, ""),
    "Space": (32, " "),
    "ArrowDown": (40, ""),
}
"""Name -> Windows' code of the key, and the text that it types."""

_WATCHED: Final = """
window.__violations = [];
document.addEventListener("securitypolicyviolation", (event) => window.__violations.push(
  `${event.violatedDirective} ${event.blockedURI} ${event.sourceFile}:${event.lineNumber}`));
window.__fired = [];
for (const name of ["alert", "confirm", "prompt"])
  window[name] = (text) => window.__fired.push(text);
"""
"""Runs in each page before its own scripts."""


class PageError(Exception):
    """The page did not do what the test waits for, or threw."""


def installed() -> bool:
    """Whether there is a browser on this machine."""
    return shutil.which(PROGRAM) is not None


class Browser:
    """One page of one browser.

    Args:
        folder: For its profile: a browser that knows nothing.

    Attributes:
        events: What the browser told so far besides answers, the oldest first.
    """

    def __init__(self, folder: Path) -> None:
        self.events: list[dict[str, Any]] = []
        self._number = 0
        self._ends = contextlib.ExitStack()
        quiet = subprocess.DEVNULL
        profile = folder / "browser"
        self._process = subprocess.Popen(
            [PROGRAM, *_FLAGS, f"--user-data-dir={profile}", "about:blank"],
            stdin=quiet,
            stdout=quiet,
            stderr=quiet,
            start_new_session=True,
        )
        try:
            self._socket = self._connect(profile / "DevToolsActivePort")
            for domain in ("Page", "Runtime", "Network", "Log"):
                self.call(f"{domain}.enable")
            self.call("Page.addScriptToEvaluateOnNewDocument", source=_WATCHED)
        except BaseException:
            self._kill()
            raise

    def _connect(self, port_file: Path) -> ClientConnection:
        end_s = time.monotonic() + WAIT_S_MAX
        while True:
            with contextlib.suppress(OSError, ValueError, StopIteration):
                port = int(port_file.read_text().split()[0])
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/json", timeout=5) as answer:
                    pages = json.load(answer)
                url = next(page for page in pages if page["type"] == "page")["webSocketDebuggerUrl"]
                return self._ends.enter_context(
                    connect(url, max_size=None, open_timeout=WAIT_S_MAX, ping_interval=None)
                )
            if time.monotonic() > end_s:
                raise PageError("the browser does not answer")
            time.sleep(0.05)

    def close(self) -> None:
        """Be gone."""
        self._ends.close()
        self._kill()

    def _kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call *method* of the DevTools protocol.

        Raises:
            PageError: The browser refused.
        """
        self._number += 1
        request = {"id": self._number, "method": method, "params": parameters}
        self._socket.send(json.dumps(request))
        while True:
            told = json.loads(self._socket.recv(WAIT_S_MAX))
            if told.get("id") == self._number:
                if "error" in told:
                    raise PageError(f"{method}: {told['error']}")
                found: dict[str, Any] = told["result"]
                return found
            self.events.append(told)

    # -- the page

    def open(self, url: str) -> None:
        """Open *url* and wait until it is loaded."""
        self.call("Page.navigate", url=url)
        self.wait(
            f"location.href.startsWith({json.dumps(url)}) && document.readyState === 'complete'"
        )

    def run(self, script: str, context: int | None = None) -> Any:
        """The value of *script*, an expression; a promise is waited for.

        Raises:
            PageError: It threw.
        """
        more = {} if context is None else {"contextId": context}
        told = self.call(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True, **more
        )
        if "exceptionDetails" in told:
            thrown = told["exceptionDetails"].get("exception", {})
            raise PageError(
                f"{script[:200]}: {thrown.get('description', told['exceptionDetails'])}"
            )
        return told["result"].get("value")

    def wait(self, script: str, wait_s: float = WAIT_S_MAX) -> None:
        """Wait until *script* is true.

        Raises:
            PageError: It was not in time; says what the page shows.
        """
        end_s = time.monotonic() + wait_s
        while True:
            with contextlib.suppress(PageError):  # the page may be on its way to another one
                if self.run(f"Boolean({script})"):
                    return
            if time.monotonic() > end_s:
                raise PageError(f"{script}\nnever came true; shown:\n{self.text()[:3000]}")
            time.sleep(0.05)

    def text(self) -> str:
        """What the page shows, as text."""
        found: str = self.run("document.body.innerText")
        return found

    def wait_for(self, text: str) -> None:
        """Wait until the page shows *text*."""
        self.wait(f"document.body.innerText.includes({json.dumps(text)})")

    def click(self, label: str) -> None:
        """Click the first button or link with *label* as its whole text, once it can be seen."""
        found = (
            "['dialog[open]', 'main', 'body'].flatMap(place =>"
            " [...document.querySelectorAll(`${place} :is(button, a, summary)`)])"
            f".find(e => e.textContent.trim() === {json.dumps(label)} && !e.disabled"
            " && e.checkVisibility())"
        )
        self.wait(found)
        self.run(f"{found}.click()")

    def fill(self, name: str, value: str) -> None:
        """Type into the field called *name*, or choose *value* there."""
        script = (
            f"(() => {{ const f = document.querySelector('dialog[open] [name=\"{name}\"]')"
            f" ?? document.querySelector('[name=\"{name}\"]'); f.value = {json.dumps(value)};"
            " f.dispatchEvent(new Event('input', {bubbles: true}));"
            " f.dispatchEvent(new Event('change', {bubbles: true})); return true; })()"
        )
        self.wait(f"document.querySelector('[name=\"{name}\"]')")
        self.run(script)

    # -- the keyboard

    def press(self, key: str, *, shift: bool = False) -> None:
        """Press *key*, by its name."""
        code, text = _KEYS[key]
        name = " " if key == "Space" else key
        given: dict[str, Any] = {"key": name, "code": key, "windowsVirtualKeyCode": code}
        given["modifiers"] = 8 if shift else 0
        typed = {"text": text} if text else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", **given, **typed)
        self.call("Input.dispatchKeyEvent", type="keyUp", **given)

    def type(self, text: str) -> None:
        """Type *text* where the focus is."""
        self.call("Input.insertText", text=text)

    def tab_to(self, script: str, most: int = 80) -> None:
        """Press Tab until *script* is true of ``e``, the element that has the focus.

        Raises:
            PageError: It never was.
        """
        for _ in range(most):
            if self.run(f"(e => Boolean({script}))(document.activeElement)"):
                return
            self.press("Tab")
        raise PageError(f"no Tab leads to: {script}")

    # -- what it looks like, and what it did

    def look(self, *, dark: bool = False, width: int = 1280, height: int = 800) -> None:
        """Be a window of this size, with this preference."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        value = "dark" if dark else "light"
        self.call(
            "Emulation.setEmulatedMedia",
            features=[{"name": "prefers-color-scheme", "value": value}],
        )

    def picture(self) -> bytes:
        """The window as a PNG."""
        return base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])

    def isolated(self) -> int:
        """A context of scripts beside the page's own, which its policy does not bind."""
        frame = self.call("Page.getFrameTree")["frameTree"]["frame"]["id"]
        context: int = self.call("Page.createIsolatedWorld", frameId=frame)["executionContextId"]
        return context

    def told(self, method: str) -> Iterator[Mapping[str, Any]]:
        """The parameters of each event *method* so far."""
        self.run("0")  # what the browser had to say before is read now
        return (told["params"] for told in self.events if told.get("method") == method)

    def errors(self) -> list[str]:
        """Exceptions, refusals by the policy and dialogs of all pages so far."""
        found = [str(each["exceptionDetails"]) for each in self.told("Runtime.exceptionThrown")]
        found += [str(each) for each in self.run("window.__violations ?? []")]
        return found + [f"ran: {each}" for each in self.run("window.__fired ?? []")]

    def bytes_loaded(self) -> int:
        """Bytes of all responses so far, with their heads."""
        sizes = (each["encodedDataLength"] for each in self.told("Network.loadingFinished"))
        return int(sum(sizes))
