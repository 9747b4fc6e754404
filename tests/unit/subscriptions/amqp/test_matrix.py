"""Every operation over AMQP, asked by every kind of identity: the rows of the table of access."""

import random
import sys
from pathlib import Path

import pytest

from distributary.access import AccessSnapshot, KeyRecord, make_key
from distributary.protocols.amqp.engine import AmqpLogin

ROOT = Path(__file__).parents[4]


@pytest.fixture(scope="module")
def matrix():
    """scripts/access_matrix.py, as a module."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "scripts")
        import access_matrix  # noqa: PLC0415 - found by the line above

        yield access_matrix
    sys.modules.pop("access_matrix", None)


def test_each_cell_of_the_table_holds(served, good, matrix):
    """Strangers are refused with the login; 403 where the table says so, and nowhere else."""
    grants = {**matrix.GRANTS, "expired": matrix.GRANTS["operator"]}
    keys = {name: make_key(random.Random(name).randbytes) for name in (*grants, "wrong")}
    records = [
        KeyRecord(
            id=keys[name].id,
            name=name,
            sha256=keys[name].sha256,
            grants=(grant,),
            until_ms=0 if name == "expired" else None,
        )
        for name, grant in grants.items()
    ]
    served.gate.replace(AccessSnapshot(required=True, keys=tuple(records)))
    ways = list(matrix.amqp_ways())
    assert {way.method for way in ways} == {*matrix.OperationName, "Discover"}

    async def strangers() -> None:
        for column in matrix.STRANGERS:
            login = AmqpLogin("x", password=keys[column].text) if column in keys else AmqpLogin()
            ended = await served.connect(login=login).ended
            assert ended.cause == "login", column

    async def known() -> list[str]:
        wrong = []
        for column in matrix.GRANTS:
            for address in dict.fromkeys(way.path for way in ways):
                login = AmqpLogin("x", password=keys[column].text)
                client = served.connect(login=login, address=address)
                for way in ways:
                    if way.path == address:
                        body = good() if way.method in ("Create", "Update") else None
                        named = {} if way.method in ("Create", "Query", "Discover") else {"id": "x"}
                        code = (await client.ask(str(way.method), body, **named)).code
                        if (403 if code == 403 else None) != matrix.expected(way, column):
                            wrong.append(f"{column}: {way.method} {address}: {code}")
        return wrong

    assert {matrix.expected(way, column) for way in ways for column in matrix.STRANGERS} == {401}

    async def everybody() -> list[str]:
        await strangers()
        return await known()

    assert served.run(everybody) == []
