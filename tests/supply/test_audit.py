"""The audit: what fails, what is only told, and that silence of a source is no success."""

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
TODAY = date(2026, 11, 23)
ENTRY = """
[[exception]]
package = "Rich_Text"
id = "CVE-2026-1"
reason = "we do not use it"
until = 2026-12-01
"""


@pytest.fixture(scope="module")
def audit(script: Callable[[str], ModuleType]) -> ModuleType:
    """scripts/audit.py."""
    return script("audit")


def test_the_exceptions_of_the_repository_can_be_read(audit: ModuleType) -> None:
    """None lacks a reason or a day; whether one is over is for the audit to say, not for a test."""
    text = (ROOT / "locks" / "exceptions.toml").read_text()
    assert audit.read_exceptions(text, date.min)[1] == []


def test_a_finding_fails_unless_it_is_excepted(audit: ModuleType) -> None:
    """By any of its ids, for this package alone."""
    finding = audit.Finding("rich-text", "1.0", ("PYSEC-1", "CVE-2026-1"), ("1.1",))
    other = audit.Finding("poor-text", "1.0", ("PYSEC-1", "CVE-2026-1"), ())
    exceptions, faults = audit.read_exceptions(ENTRY, TODAY)
    assert faults == []
    failures, notes = audit.judge([finding, other], exceptions)
    assert failures == ["poor-text 1.0: PYSEC-1, CVE-2026-1 (not fixed yet)"]
    told = "rich-text 1.0: PYSEC-1, CVE-2026-1 (fixed in 1.1)"
    assert notes == [f"{told}; excepted until 2026-12-01: we do not use it"]


def test_an_exception_that_nothing_needs_is_told(audit: ModuleType) -> None:
    """It fails nothing: the mended version may come before anybody looks."""
    exceptions, _ = audit.read_exceptions(ENTRY, TODAY)
    assert audit.judge([], exceptions) == (
        [],
        ["the exception for Rich_Text, CVE-2026-1 is no longer needed"],
    )


def test_an_exception_holds_on_its_last_day(audit: ModuleType) -> None:
    """``until`` is inclusive."""
    assert audit.read_exceptions(ENTRY, date(2026, 12, 1))[1] == []


FAULTS = {
    "over": (ENTRY, date(2026, 12, 2), "it was until 2026-12-01: mend it, or decide again"),
    "too long": (ENTRY, date(2026, 6, 3), "until is more than 180 days away"),
    "no reason": (ENTRY.replace("we do not use it", " "), TODAY, "reason is missing"),
    "no day": (ENTRY.replace("until = 2026-12-01", ""), TODAY, "until is not a day"),
    "a time": (ENTRY.replace("2026-12-01", "2026-12-01T00:00:00Z"), TODAY, "until is not a day"),
    "a typing error": (ENTRY + 'untill = "x"', TODAY, "unknown key untill"),
    "another table": ("[[exceptions]]", TODAY, "unknown key exceptions"),
    "no TOML": ("[[", TODAY, "no TOML"),
}


@pytest.mark.parametrize(("text", "today", "fault"), FAULTS.values(), ids=FAULTS.keys())
def test_a_faulty_exception_excepts_nothing(
    audit: ModuleType, text: str, today: date, fault: str
) -> None:
    """And fails the audit."""
    exceptions, faults = audit.read_exceptions(text, today)
    assert exceptions == []
    assert any(fault in one for one in faults), faults


def test_every_version_of_the_locks_is_asked_for(audit: ModuleType) -> None:
    """Also those of other Pythons and platforms; one of each name at a time."""
    locks = [
        "A_b==1 ; python_version < '3.12' \\\n    --hash=x\nA_b==2 \\\n",
        "# c\nd==3\na-b==1\n",
    ]
    pins = audit.pins_of(locks)
    assert pins == [("a-b", "1"), ("a-b", "2"), ("d", "3")]
    assert audit.rounds_of(pins) == [[("a-b", "1"), ("d", "3")], [("a-b", "2")]]


Advisories = dict[str, list[dict[str, Any]]]


def _advisory(name: str, number: str, fixed_in: str) -> dict[str, Any]:
    package = {"name": name, "ecosystem": "PyPI"}
    events = [{"introduced": "0"}, {"fixed": fixed_in}]
    ranges = [{"type": "ECOSYSTEM", "events": events}]
    return {
        "id": f"PYSEC-{number}",
        "aliases": [f"CVE-{number}"],
        "summary": "a made-up one",
        "affected": [{"package": package, "ranges": ranges}],
    }


CANARY = {"jinja2": [_advisory("jinja2", "2014-1", "2.7")]}


@pytest.fixture
def service() -> Iterator[Callable[[Advisories], str]]:
    """A service of advisories as OSV's on a free port: from package to its URL."""
    servers = []

    def serve(advisories: Advisories) -> str:
        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
                vulns = advisories.get(asked["package"]["name"], [])
                body = json.dumps({"vulns": vulns} if vulns else {}).encode()
                self.send_response(200)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_port}/v1/query"

    yield serve
    for server in servers:
        server.shutdown()
        server.server_close()


def _audit(url: str, exceptions: Path) -> tuple[int, str]:
    command = [sys.executable, str(ROOT / "scripts" / "audit.py"), "--osv-url", url]
    command += ["--exceptions", str(exceptions)]
    ran = subprocess.run(
        command, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    return ran.returncode, ran.stdout


@pytest.mark.slow
def test_the_audit_reports_what_a_source_tells(
    service: Callable[[Advisories], str], tmp_path: Path
) -> None:
    """The whole program with a source: nothing known; a finding; the same excepted."""
    exceptions = tmp_path / "exceptions.toml"
    exceptions.write_text("")
    code, said = _audit(service(CANARY), exceptions)
    assert (code, said.endswith("packages by OSV: 0 findings\n")) == (0, True), said

    url = service(CANARY | {"rich": [_advisory("rich", "2026-7", "99.0")]})
    code, said = _audit(url, exceptions)
    assert code == 1
    assert "CVE-2026-7" in said
    assert "fixed in 99.0" in said

    until = (datetime.now(UTC) + timedelta(2)).date().isoformat()
    lines = ["[[exception]]", 'package = "rich"', 'id = "CVE-2026-7"', 'reason = "made up"']
    exceptions.write_text("\n".join([*lines, f"until = {until}"]))
    code, said = _audit(url, exceptions)
    assert (code, "excepted until" in said) == (0, True), said


@pytest.mark.slow
def test_a_source_without_advisories_is_no_success(
    service: Callable[[Advisories], str], tmp_path: Path
) -> None:
    """As of a mirror that has packages alone: NOT RUN is said, and nothing fails.

    Likewise where nobody listens. An exception that is over fails all the same.
    """
    exceptions = tmp_path / "exceptions.toml"
    exceptions.write_text("")
    code, said = _audit(service({}), exceptions)
    assert code == 0
    assert said.startswith("NOT RUN (audit of ")
    assert "no advisory about jinja2" in said

    code, said = _audit("http://127.0.0.1:1/v1/query", exceptions)
    assert code == 0
    assert said.startswith("NOT RUN (audit of ")

    exceptions.write_text(ENTRY.replace("2026-12-01", "2026-01-01"))
    code, said = _audit("http://127.0.0.1:1/v1/query", exceptions)
    assert (code, "it was until 2026-01-01" in said) == (1, True), said
