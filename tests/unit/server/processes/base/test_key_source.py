"""Keys of sealed secrets from a command, and from a file descriptor."""

import os
import stat
import sys

import pytest

from distributary.core.cluster import KafkaPlace, PostgresPlace, SharedPlaces
from distributary.core.environment import CREDENTIAL_KEY_VARIABLE
from distributary.core.errors import SettingsError
from distributary.datadir import DataDir
from distributary.server import settings
from distributary.server.processes.base import key_source as source
from distributary.server.processes.base.key_source import bring_keys
from distributary.server.processes.control.form import Alone
from distributary.server.processes.node.led import Led, LedStart
from distributary.server.settings import Settings

KEYS = "a2V5LW9uZQ==\n\na2V5LXR3bw==\n"
CANARY = "must-never-be-shown"


def program(tmp_path, text: str) -> str:
    """A command that runs *text* as Python."""
    path = tmp_path / "a program"
    path.write_text(f"#!{sys.executable}\nimport sys, time\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return f"'{path}' argument"


def test_a_command_prints_the_keys(tmp_path):
    """One a line, as in a file; its arguments are passed on."""
    line = program(tmp_path, f"assert sys.argv[1:] == ['argument']; print({KEYS!r})")
    environ: dict[str, str] = {}
    bring_keys(Settings(credential_key_command=line), environ)
    assert environ == {CREDENTIAL_KEY_VARIABLE: "a2V5LW9uZQ==,a2V5LXR3bw=="}


def test_a_descriptor_brings_the_keys(tmp_path):
    """It is read to its end, and closed."""
    path = tmp_path / "keys"
    path.write_text(KEYS)
    number = os.open(path, os.O_RDONLY)
    environ: dict[str, str] = {}
    bring_keys(Settings(credential_key_fd=number), environ)
    assert environ[CREDENTIAL_KEY_VARIABLE].startswith("a2V5LW9uZQ==")
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(number)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"print({CANARY!r}); sys.exit('not logged in')", "ended with 1: 'not logged in'"),
        ("pass", "it brought no keys"),
        ("print()", "it brought no keys"),
        (f"print({CANARY!r} * 1000)", "more than 4096 bytes"),
    ],
)
def test_a_command_that_brings_none_is_told(tmp_path, text, message):
    """With what it says of itself, and without what it printed."""
    with pytest.raises(SettingsError, match=message) as caught:
        bring_keys(Settings(credential_key_command=program(tmp_path, text)), {})
    assert CANARY not in str(caught.value)


def test_a_command_that_never_ends_is_ended(tmp_path, monkeypatch):
    """The server does not wait for ever."""
    monkeypatch.setattr(source, "COMMAND_S", 0.2)
    line = program(tmp_path, "time.sleep(60)")
    with pytest.raises(SettingsError, match=r"longer than 0\.2 s"):
        bring_keys(Settings(credential_key_command=line), {})


def test_a_command_that_is_not_there_is_told(tmp_path):
    """By the system's word."""
    with pytest.raises(SettingsError, match="cannot be run"):
        bring_keys(Settings(credential_key_command=str(tmp_path / "nothing")), {})


def test_a_descriptor_that_is_not_open_is_told():
    """With how to open it."""
    with pytest.raises(SettingsError, match=r"descriptor 60000 cannot be read.*3<keys"):
        bring_keys(Settings(credential_key_fd=60000), {})


def test_keys_come_from_one_place(tmp_path):
    """Two places would be a guess."""
    chosen = Settings(credential_key_command="x", credential_key_file=tmp_path / "key")
    with pytest.raises(SettingsError, match="credential_key_file and credential_key_command"):
        bring_keys(chosen, {})
    with pytest.raises(SettingsError, match=CREDENTIAL_KEY_VARIABLE):
        bring_keys(Settings(credential_key_fd=3), {CREDENTIAL_KEY_VARIABLE: "x"})
    environ = {CREDENTIAL_KEY_VARIABLE: "x"}
    bring_keys(Settings(credential_key_file=tmp_path / "key"), environ)
    assert environ == {CREDENTIAL_KEY_VARIABLE: "x"}


@pytest.mark.parametrize("raw", ["", "  ", "a 'b", "a\0b", 7])
def test_what_is_no_command_line_is_refused(raw):
    """Before anything is started."""
    with pytest.raises(SettingsError, match="--credential-key-command"):
        settings.load({"credential_key_command": raw}, {}, None)


@pytest.fixture
def environ(monkeypatch):
    """Variables of this process, without keys; as they were after the test."""
    monkeypatch.setenv(CREDENTIAL_KEY_VARIABLE, "")
    monkeypatch.delenv(CREDENTIAL_KEY_VARIABLE)
    return os.environ


def test_a_server_of_one_machine_brings_the_keys(tmp_path, environ):
    """Its processes inherit them."""
    line = program(tmp_path, f"print({KEYS!r})")
    chosen = Settings(data_dir=tmp_path / "data", credential_key_command=line)
    form = Alone(chosen, DataDir(tmp_path / "data"))
    form.prepare()
    form.release()
    assert environ[CREDENTIAL_KEY_VARIABLE] == "a2V5LW9uZQ==,a2V5LXR3bw=="


def test_the_control_part_of_a_node_takes_the_keys_that_its_node_has_brought(tmp_path, environ):
    """Neither command nor descriptor brings them twice, and two places would be refused."""
    environ[CREDENTIAL_KEY_VARIABLE] = "a2V5LW9uZQ=="
    line = program(tmp_path, "sys.exit('asked a second time')")
    start = LedStart(
        data_dir=str(tmp_path),
        node="a",
        generation=1,
        receivers=1,
        http_fd=0,
        own_fd=0,
    )
    places = SharedPlaces(
        log=KafkaPlace(servers=("log:9092",), prefix="x"),
        store=PostgresPlace(url="postgresql://user@store/database"),
    )
    settings = Settings(credential_key_command=line)
    form = Led(start, places, settings, DataDir(tmp_path), in_use=lambda _url: 3)
    assert form.partitions == 3
    form.prepare()
    form.board().close()
    assert environ[CREDENTIAL_KEY_VARIABLE] == "a2V5LW9uZQ=="
