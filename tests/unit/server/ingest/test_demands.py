"""Every path that an application serves has a row in the table of demands, and one in the docs."""

import sys
from pathlib import Path

import pytest

from distributary.knative import kinds
from distributary.server.ingest import ROWS, need_of, row_of
from distributary.subscriptions.http import create_app
from distributary.subscriptions.http._resources import Resource
from kit import access_table

ROOT = Path(__file__).parents[4]


@pytest.fixture(scope="module")
def matrix():
    """scripts/access_matrix.py, as a module."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "scripts")
        import access_matrix  # noqa: PLC0415 - found by the line above

        yield access_matrix
    sys.modules.pop("access_matrix", None)


def served():
    """Path and methods of every route of the application; nothing behind it is asked."""
    nothing: dict = dict.fromkeys(
        ("subscriptions", "health", "deliveries", "events", "statuses", "keys")
    )
    app = create_app(
        nothing["subscriptions"],
        nothing["health"],
        lambda: None,
        nothing["deliveries"],
        events=nothing["events"],
        statuses=nothing["statuses"],
        keys=nothing["keys"],
    )
    found = {}
    for route in app.routes:
        assert isinstance(route.endpoint, Resource), route.path
        found[route.path] = set(route.endpoint.allow.split(", ")) - {"HEAD"}
        if route.path.endswith("/events"):
            found[route.path].add("POST")  # the receiver's
    return found


def test_every_route_has_a_row():
    """A path without one would need an identity alone."""
    for path in served():
        concrete = path.replace("/consent/{name}", f"/consent/{'0' * 32}")
        assert row_of(concrete.encode()) is not None, path


def test_every_route_is_in_the_table_of_the_documentation(matrix):
    """With each of its methods."""
    shown: dict[str, set[str]] = {}
    for way in matrix.ways():
        shown.setdefault(way.shown, set()).add(way.method)
    for path, methods in served().items():
        assert shown.get(path) == methods, path


def test_every_kind_of_the_kubernetes_api_is_in_it(matrix):
    """Those that users make, and Namespaces."""
    paths = {way.path for way in matrix.ways()}
    for kind in kinds.KINDS:
        group = f"apis/{kind.group}" if kind.group else "api"
        assert f"/{group}/{kind.version}/{kind.plural}" in paths


def test_every_row_is_used(matrix):
    """A row that no route needs is a mistake, or hides one."""
    used = {row_of(way.path.encode())[0] for way in matrix.ways()}
    unused = [row.path.pattern for row in ROWS if row not in used]
    assert unused == ["/apis/apiextensions\\.k8s\\.io/.*"]  # what clients discover


def test_the_table_is_the_one_that_was_meant(matrix):
    """Cell by cell, as it was written down: a route that is new, gone or changed fails here."""
    found: dict[str, set[str]] = {}
    for way in (*matrix.ways(), *matrix.amqp_ways()):
        columns = {
            "nobody" if column == "none" else column
            for column in ("none", *matrix.GRANTS)
            if matrix.expected(way, column) is None
        }
        assert found.setdefault(access_table.key_of(way), columns) == columns, way
    meant = {key: set(columns) for key, columns in access_table.read().items()}
    changed = {key for key in found.keys() | meant.keys() if found.get(key) != meant.get(key)}
    assert {key: (found.get(key), meant.get(key)) for key in changed} == {}


def test_who_is_refused_is_told_whether_it_is_known(matrix):
    """401 to every stranger alike, 403 to everybody else, and nothing else."""
    table = access_table.MeantTable(matrix.STRANGERS)
    for way in (*matrix.ways(), *matrix.amqp_ways()):
        for column in (*matrix.STRANGERS, *matrix.GRANTS):
            assert matrix.expected(way, column) == table.expected(way, column), (way, column)


@pytest.mark.parametrize("path", [b"/new", b"/subscriptionsx", b"/metrics/x", b"/healthz/x"])
def test_a_path_that_nobody_thought_of_needs_an_identity(path):
    """Whatever is served there one day."""
    assert need_of(b"GET", path).identity
