"""Settings of several nodes: where log and store lie that they share."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from distributary.core.cluster import KafkaPlace, PostgresPlace, encode_places, take_places
from distributary.core.environment import LOG_PASSWORD_VARIABLE, STORE_PASSWORD_VARIABLE
from distributary.core.errors import SettingsError
from distributary.server import settings
from distributary.server.processes._before import faults_before_start
from distributary.server.processes.node.shared_places import shared_places
from distributary.server.settings import shown

LOG = "kafka://one:9092,[::1]:9093/shop.main"
STORE = "postgresql://shop@one:5432,two/shop?sslmode=verify-full&sslrootcert=/ca.pem"
BOTH = {"log": LOG, "store": STORE, "node_address": "node-1:9418"}
SECRET = "tr0ub4dor"


def _faults(flags: Mapping[str, Any], environ: Mapping[str, str] | None = None) -> list[str]:
    with pytest.raises(SettingsError) as caught:
        settings.load(flags, environ or {}, None)
    return str(caught.value).splitlines()[1:]


def test_both_places_are_read_from_their_urls(tmp_path: Path) -> None:
    """Brokers, prefix and certificates of the one, the whole URL of the other; files absolute."""
    said = BOTH | {"log_tls": True, "log_ca_file": str(tmp_path / "ca.pem"), "log_user": "shop"}
    environ = {LOG_PASSWORD_VARIABLE: SECRET, STORE_PASSWORD_VARIABLE: "other", "HOME": "/"}
    chosen = settings.load(said | {"log_sasl": "SCRAM-SHA-512"}, environ, None)
    places = shared_places(chosen, environ)
    assert environ == {"HOME": "/"}, "no child process finds the passwords"
    assert places is not None
    assert places.log == KafkaPlace(
        servers=("one:9092", "[::1]:9093"),
        prefix="shop.main",
        tls=True,
        ca_file=str(tmp_path / "ca.pem"),
        sasl_mechanism="SCRAM-SHA-512",
        user="shop",
        password=SECRET,
    )
    assert places.store == PostgresPlace(url=STORE, password="other")
    assert SECRET not in repr(places)


def test_a_server_without_them_has_its_data_folder() -> None:
    """The form of one machine is the default."""
    assert shared_places(settings.load({}, {}, None), {}) is None


def test_a_child_takes_the_places_out_of_its_environment() -> None:
    """Its own children, and whoever reads its environment later, do not find them."""
    places = shared_places(settings.load(BOTH, {}, None), {STORE_PASSWORD_VARIABLE: SECRET})
    environ = {"HOME": "/", **encode_places(places)}
    assert SECRET in str(environ)
    assert take_places(environ) == places
    assert environ == {"HOME": "/"}
    assert take_places(environ) is None


def test_every_fault_between_these_settings_is_named_at_once() -> None:
    """What needs another one says which."""
    assert _faults({"log": LOG, "log_ca_file": "ca", "log_user": "x", "log_cert_file": "c"}) == [
        "store: needed with log, since a state on one machine would bind all nodes to it",
        "log_ca_file: needs log_tls",
        "log_cert_file: needs log_tls",
        "log_cert_file and log_key_file: one needs the other",
        "log_user: needs log_sasl",
    ]
    assert _faults({"store": STORE, "log_tls": True, "node_name": "a"}) == [
        "log: needed with store, since a log on one machine would bind all nodes to it",
        "log_tls: needs log",
    ]
    assert _faults({"node_address": "a:1", "store_password_file": "p"}) == [
        "store_password_file: needs store",
        "node_address: needs log and store",
    ]
    assert _faults({"log": LOG, "store": STORE, "log_sasl": "PLAIN"}) == [
        "node_address: needed with log and store",
        "log_user: needed with log_sasl",
        (
            "log_sasl: needs a password: log_password_file, log_password_command or"
            " DISTRIBUTARY_LOG_PASSWORD"
        ),
    ]


def test_a_password_comes_from_one_place() -> None:
    """Which of two counts would surprise somebody."""
    flags = BOTH | {"store_password_file": "p", "store_password_command": "pass show x"}
    assert _faults(flags, {STORE_PASSWORD_VARIABLE: SECRET}) == [
        (
            "store_password_file and store_password_command and DISTRIBUTARY_STORE_PASSWORD: one"
            " password comes from one place; leave all but one out"
        )
    ]


@pytest.mark.parametrize(
    ("name", "raw"),
    [
        ("log", "one:9092/prefix"),
        ("log", "kafka://one/prefix"),
        ("log", "kafka://one:0/prefix"),
        ("log", "kafka://one:65536/prefix"),
        ("log", "kafka://one:9092"),
        ("log", "kafka://one:9092/"),
        ("log", "kafka://one:9092/a/b"),
        ("log", "kafka://one:9092,/prefix"),
        ("log", f"kafka://me:{SECRET}@one:9092/prefix"),
        ("log", "kafka://" + ",".join(["one:1"] * 65) + "/prefix"),
        ("log", 1),
        ("store", f"postgresql://me:{SECRET}@one/db"),
        ("store", f"postgresql://me%3A{SECRET}@one/db"),
        ("store", f"postgresql://me@one/db?password={SECRET}"),
        ("store", f"postgresql://me@one/db?sslpassword={SECRET}"),
        ("store", "postgresql://me@one/db?sslmode"),
        ("store", "postgresql://one/db"),
        ("store", "postgresql://me@one/"),
        ("store", "postgresql://me@one:0/db"),
        ("store", "postgresql://me@/db"),
        ("store", f"postgresql://me@{'h,' * 16}h/db"),
        ("store", "mysql://me@one/db"),
        ("store", "postgresql://me@one/db#x"),
        ("store", None.__class__),
    ],
)
def test_an_unusable_place_is_refused_without_repeating_it(name: str, raw: object) -> None:
    """People put passwords in URLs: what is refused is not shown either."""
    (fault,) = [each for each in _faults(BOTH | {name: raw}) if each.startswith(f"--{name}:")]
    assert "got" not in fault
    assert SECRET not in fault
    assert "without a password" in fault


@pytest.mark.parametrize("raw", ["node-1", "node-1:0", "node-1:x", ":9418", "a b:1", 1])
def test_the_address_of_a_node_is_host_and_port(raw: object) -> None:
    """Others connect to exactly this."""
    assert any(
        each.startswith("--node-address: expected") for each in _faults({"node_address": raw})
    )


def test_a_command_or_a_file_brings_a_password(tmp_path: Path) -> None:
    """The first line counts; the file is its owner's alone."""
    file = tmp_path / "password"
    file.write_text(f"{SECRET}\nmore\n")
    file.chmod(0o600)
    chosen = settings.load(
        BOTH | {"store_password_file": str(file)}, {STORE_PASSWORD_VARIABLE: ""}, None
    )
    assert faults_before_start(chosen) == []
    places = shared_places(chosen, {})
    assert places is not None
    assert places.store.password == SECRET
    printed = settings.load(BOTH | {"store_password_command": f"printf {SECRET}"}, {}, None)
    places = shared_places(printed, {})
    assert places is not None
    assert places.store.password == SECRET


def test_what_brings_no_password_is_a_fault_that_shows_nothing(tmp_path: Path) -> None:
    """All of them are told at once, and the check before the start finds those of files."""
    file = tmp_path / "password"
    file.write_text(SECRET)
    file.chmod(0o644)
    said = {"log_sasl": "PLAIN", "log_user": "me", "log_password_file": str(file)}
    chosen = settings.load(BOTH | said | {"store_password_command": "printf ''"}, {}, None)
    with pytest.raises(SettingsError) as caught:
        shared_places(chosen, {})
    head, others, empty = str(caught.value).splitlines()
    assert head == "These settings cannot be used:"
    assert others.startswith("log_password_file: others may read the file of a password")
    assert empty == "store_password_command: expected a password in the first line, in UTF-8"
    assert SECRET not in str(caught.value)
    assert faults_before_start(chosen) == [others]


def test_passwords_are_not_shown() -> None:
    """``config show`` names where they come from."""
    environ = {LOG_PASSWORD_VARIABLE: SECRET, STORE_PASSWORD_VARIABLE: SECRET}
    flags = BOTH | {"log_sasl": "PLAIN", "log_user": "me"}
    rows = {row.name: row for row in shown.shown_settings(flags, environ, None, None)}
    assert rows["log_password"] == ("log_password", "***", LOG_PASSWORD_VARIABLE)
    assert rows["store_password"].value == "***"
    assert rows["store"].value == STORE
    flags = BOTH | {"store_password_command": f"vault read {SECRET}"}
    rows = {row.name: row for row in shown.shown_settings(flags, {}, None, None)}
    assert rows["store_password_command"].value == "vault ***"


def test_a_node_may_listen_elsewhere_than_others_dial() -> None:
    """Behind a proxy; and it is a setting of nodes alone."""
    assert settings.load(BOTH | {"node_listen": "10.0.0.5:9418"}, {}, None).node_listen
    assert _faults({"node_listen": "10.0.0.5:9418"}) == ["node_listen: needs log and store"]
    assert _faults(BOTH | {"node_listen": "10.0.0.5"})[0].startswith("--node-listen: expected")


def test_nodes_archive_by_a_timer() -> None:
    """Retention waits for the folder; no node runs the job."""
    assert settings.load(BOTH | {"archive": "/mnt/archive"}, {}, None).archive == "/mnt/archive"
    asked = {"archive_every_s": "1h", "archive_age_max_s": "1d"}
    assert _faults(BOTH | {"archive": "/mnt/archive"} | asked) == [
        "archive_every_s: with log, run distributary archive by a timer",
        "archive_age_max_s: with log, run distributary archive by a timer",
    ]
