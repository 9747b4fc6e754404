"""URLs of PostgreSQL databases."""

import subprocess
import sys

import pytest

from distributary.core.cluster import PostgresPlace
from distributary.core.database import database_url, is_postgres, sqlite_url
from distributary.core.errors import SettingsError


def _url(text: str, password: str = ""):
    return database_url(PostgresPlace(url=text, password=password))


def test_hosts_ports_and_options_go_to_the_driver(tmp_path) -> None:
    """Several hosts, IPv6 among them, and the default port."""
    url = _url("postgresql://a%40b@one:5433,[::1],[fe80::2]:6000/x%20y?sslmode=verify-full")
    arguments = url.get_dialect()().create_connect_args(url)[1]
    assert arguments == {
        "user": "a@b",
        "dbname": "x y",
        "host": "one,::1,fe80::2",
        "port": "5433,5432,6000",
        "sslmode": "verify-full",
    }
    assert is_postgres(url)
    assert not is_postgres(sqlite_url(tmp_path / "a"))


def test_what_is_not_for_a_url_to_say_changes_nothing() -> None:
    """Neither how long anything waits, nor that only a server that takes writes will do."""
    url = _url("postgresql://a@b/c?target_session_attrs=any&connect_timeout=0&sslmode=require")
    assert dict(url.query) == {"host": "b", "port": "5432", "sslmode": "require"}


def test_a_password_is_handed_on_and_never_printed() -> None:
    """With characters that a URL would garble."""
    url = _url("postgresql://me@db/state", "pass/w@rd: x")
    assert url.get_dialect()().create_connect_args(url)[1]["password"] == "pass/w@rd: x"
    assert "w@rd" not in f"{url} {url!r}"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("mysql://a@b/c", "begins with postgresql://"),
        ("postgresql://a:secret@b/c", "the password does not stand in it"),
        ("postgresql://a@b", "name of one database"),
        ("postgresql://a@b/c/d", "name of one database"),
        ("postgresql://a@/c", "a host before each port"),
        ("postgresql://a@b,,c/d", "a host before each port"),
        ("postgresql://a@b:0/d", "not '0'"),
        ("postgresql://a@b:x/d", "not 'x'"),
        ("postgresql://a@b:5432:1/d", "a host before each port"),
        (
            "postgresql://a@b/c?options=-cfsync=off&password=secret",
            "unknown options: options, pass",
        ),
        (f"postgresql://{'h,' * 16}h/c", "at most 16 hosts"),
    ],
)
def test_each_fault_is_named(text: str, fault: str) -> None:
    """All at once, and without a secret."""
    with pytest.raises(SettingsError, match=fault) as raised:
        _url(text)
    assert "secret" not in str(raised.value)


def test_every_fault_of_a_url_is_in_one_message() -> None:
    """Whoever mends it does so once."""
    with pytest.raises(SettingsError) as raised:
        _url("http://a:b@:1x/?c=d")
    assert str(raised.value).count(";") >= 4


def test_who_has_files_loads_no_driver(tmp_path) -> None:
    """A server of one machine neither needs PostgreSQL's driver nor pays for it."""
    look = (
        "import sys; from pathlib import Path;"
        "from distributary.core.database import sqlite_url;"
        "from distributary.partitions import DirectoryTargets;"
        "from distributary.subscriptions.store.store import Store;"
        "url = sqlite_url(Path(sys.argv[1])); store = Store(url);"
        "DirectoryTargets(url).refresh(); store.close();"
        "assert not [name for name in sys.modules if name.startswith('psycopg')]"
    )
    subprocess.run([sys.executable, "-c", look, str(tmp_path / "state.db")], check=True)
