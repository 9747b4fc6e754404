"""The files of the console as they are answered, and what must never stand in them."""

import asyncio
import re
import subprocess
import sys
import zipfile
from importlib import resources
from pathlib import Path

import pytest

from distributary.server.console import (
    BYTES_MAX,
    CONTENT_SECURITY_POLICY,
    PATH,
    Console,
    read_files,
)
from kit.asgi_client import AsgiClient

ROOT = Path(__file__).parents[4]
STATIC = ROOT / "src" / "distributary" / "server" / "console" / "static"
SCRIPTS = sorted(STATIC.glob("*.js"))

SINKS = re.compile(
    r"""innerHTML|outerHTML|insertAdjacentHTML|document\.write|createContextualFragment|DOMParser
    |srcdoc|setHTML|\beval\b|\bFunction\(|javascript:|\bsetAttributeNS\b|\.on[a-z]+\s*=[^=]
    |createElement\(["']script|importScripts|new\ Worker|XSLTProcessor|execCommand|\bopen\(""",
    re.VERBOSE,
)
"""What could make markup or a program of a text."""

KEPT = re.compile(r"sessionStorage|indexedDB|document\.cookie|caches\.|window\.name|serviceWorker")
"""Where a key could outlive its tab."""


@pytest.fixture
def ask():
    """Asks the console: method, path, header fields -> answer."""
    with asyncio.Runner() as runner:
        client = AsgiClient(Console(), runner)
        yield lambda method, path, *fields: client.request(method, path, headers=fields)


def test_the_page_and_what_it_names_are_there(ask):
    """By paths with a digest of all files: no page runs with those of another version."""
    page = ask("GET", PATH)
    assert page.status == 200
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert page.headers["cache-control"] == "no-cache"
    named = re.findall(rb'(?:href|src)="(/[^"]*)"', page.body)
    assert len(named) == 3
    for path in named:
        answer = ask("GET", path.decode())
        assert answer.status == 200
        assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
        assert answer.headers["etag"].startswith('"')
    assert ask("GET", f"{PATH}/").body == page.body


def test_every_module_that_is_imported_is_there():
    """And none is left over."""
    names = {path.name for path in SCRIPTS}
    imported = {
        name for path in SCRIPTS for name in re.findall(r'from "\./([^"]+)"', path.read_text())
    }
    assert imported | {"main.js"} == names


def test_every_answer_has_the_policy(ask):
    """Nothing inline, nothing from elsewhere, in no frame."""
    for path in read_files():
        assert ask("GET", path).headers["content-security-policy"] == CONTENT_SECURITY_POLICY
    policy = dict(part.split(" ", 1) for part in CONTENT_SECURITY_POLICY.split("; "))
    assert policy["default-src"] == policy["frame-ancestors"] == "'none'"
    assert policy["base-uri"] == policy["form-action"] == policy["trusted-types"] == "'none'"
    assert {policy[f"{kind}-src"] for kind in ("script", "style", "connect", "img")} == {"'self'"}


def test_what_is_known_is_not_sent_again(ask):
    """RFC 9110, 13.1.2: also among others, weak, or any."""
    tag = ask("GET", PATH).headers["etag"]
    for tags in (tag, f'"x", {tag}', f"W/{tag}", "*"):
        answer = ask("GET", PATH, ("if-none-match", tags))
        assert (answer.status, answer.body, answer.headers["etag"]) == (304, b"", tag)
    assert ask("GET", PATH, ("if-none-match", '"x"')).status == 200


def test_head_has_the_fields_of_get_and_no_body(ask):
    """RFC 9110, 9.3.2."""
    got, head = ask("GET", PATH), ask("HEAD", PATH)
    assert (head.status, head.headers, head.body) == (200, got.headers, b"")


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_another_method_is_405(ask, method):
    """Nothing can be put there."""
    answer = ask(method, PATH)
    assert (answer.status, answer.headers["allow"]) == (405, "GET, HEAD, OPTIONS")
    assert ask("OPTIONS", PATH).headers["allow"] == "GET, HEAD, OPTIONS"


@pytest.mark.parametrize(
    "path",
    [
        "/console/index.html",
        "/console/main.js",
        "/console/../console",
        "/console/assets/main.js",
        "/console/%2e%2e/%2e%2e/etc/passwd",
        "/console/{place}/../../_files.py",
        "/console/{place}/../../../../../../../../../../etc/passwd",
        "/console/{place}//etc/passwd",
        "/console/{place}/",
        "/console/{place}/main.js/",
        "/console/{place}/main.js%00.css",
    ],
)
def test_a_path_that_is_not_in_the_table_is_404(ask, path):
    """Whatever it looks like: no path leads to the disk."""
    place = next(name.split("/")[2] for name in read_files() if name != PATH)
    answer = ask("GET", path.format(place=place))
    assert (answer.status, answer.json()["code"]) == (404, "notfound")


def test_all_files_together_are_small():
    """A console is opened over bad lines too."""
    assert sum(len(file.body) for file in read_files().values()) < BYTES_MAX


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_no_script_can_make_markup_of_a_text(path):
    """Not with care, but not at all: text becomes text nodes and attributes, in one module."""
    text = path.read_text()
    assert SINKS.findall(text) == []
    assert KEPT.findall(text) == []
    elements = re.findall(r"createElement(?:NS)?|setAttribute\((?!\")", text)
    assert elements == [] or path.name == "dom.js"
    assert "localStorage" not in text or path.name == "main.js"


def test_nothing_is_inline_or_from_elsewhere():
    """The policy would refuse it; the files do not try."""
    page = (STATIC / "index.html").read_text()
    assert re.findall(r"<script(?![^>]*src=)|<style|style=|\son[a-z]+=", page) == []
    for path in STATIC.iterdir():
        text = path.read_text()
        for harmless in ("http://www.w3.org/2000/svg", "http://127.0.0.1:8900/"):
            text = text.replace(harmless, "")  # a namespace, and the sink of an example
        assert re.findall(r"https?://|@import|url\(|\bimport\(", text) == [], path.name


def test_a_planted_sink_is_found():
    """The patterns above find what they are for."""
    for line in (
        "e.innerHTML = x",
        "new Function(x)",
        "e.onclick = x",
        "eval(x)",
        "a.href = 'javascript:x'",
    ):
        assert SINKS.search(line)
    assert KEPT.search("document.cookie = key")


@pytest.mark.slow
def test_the_wheel_has_every_file_of_the_console(tmp_path):
    """They are data of the package: a build that lost them would serve nothing."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    folder = "distributary/server/console/static/"
    names = {name.removeprefix(folder) for name in zipfile.ZipFile(wheel).namelist()}
    assert {path.name for path in STATIC.iterdir()} <= names
    read = resources.files("distributary.server.console") / "static"
    assert {each.name for each in read.iterdir()} == {path.name for path in STATIC.iterdir()}
