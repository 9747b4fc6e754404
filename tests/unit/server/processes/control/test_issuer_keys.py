"""Keys of issuers over a restart of the server: what receivers were told before still counts."""

import pytest

from distributary.access import AccessSnapshot, Gate, IssuerRecord
from distributary.access.issuers import Issuer
from distributary.datadir import DataDir
from distributary.resource import Reach
from distributary.server.issuers import IssuerSettings
from distributary.server.processes.control._issuers import IssuerKeys
from distributary.testing.virtual import VirtualClock
from kit.minted import AUDIENCE, URL, signing_key

ISSUER = Issuer(name="shop", url=URL, audiences=(AUDIENCE,))


@pytest.fixture
def start(tmp_path):
    """Starts the part of a control process, and returns what receivers are told at first."""
    paths = DataDir(tmp_path)
    paths.run.mkdir()

    def begin(written: bytes | None, *issuers: Issuer) -> tuple[IssuerRecord, ...]:
        if written is not None:
            paths.access.write_bytes(written)
        clock = VirtualClock()
        keys = IssuerKeys(paths, clock, 2, Gate(clock.wall_ms), lambda _records: None)
        keys.configure(tuple(IssuerSettings(issuer) for issuer in issuers), Reach())
        return keys.records

    return begin


def told(keys: tuple[dict[str, str], ...] = (signing_key().jwk(),)) -> bytes:
    """The file that an earlier process wrote."""
    fetched_ms = VirtualClock().wall_ms() - 3_600_000
    record = IssuerRecord(issuer=ISSUER, keys=keys, fetched_ms=fetched_ms)
    return AccessSnapshot(required=True, issuers=(record,)).encode()


def test_tokens_count_at_once_after_a_restart(start):
    """Before anything was fetched, and while the issuer is down."""
    (record,) = start(told(), ISSUER)
    assert [key["kid"] for key in record.keys] == ["one"]


@pytest.mark.parametrize(
    "written",
    [None, b"", b"{", b"[]", b'{"issuers":5}', b"\xff"],
    ids=["missing", "empty", "cut", "a list", "another type", "no text"],
)
def test_a_start_needs_no_earlier_file(start, written):
    """The first start; a file of another version, or one that is damaged."""
    (record,) = start(written, ISSUER)
    assert record.keys == ()


def test_issuers_that_are_configured_no_more_are_forgotten(start):
    """With their keys."""
    assert start(told()) == ()


def test_damaged_keys_are_left_out(start):
    """They are read as strictly as those that an issuer sends."""
    (record,) = start(told(({"kty": "RSA", "n": "!", "e": "AQAB"}, signing_key().jwk())), ISSUER)
    assert [key["kid"] for key in record.keys] == ["one"]
