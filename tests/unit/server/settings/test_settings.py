import dataclasses
import pickle
from pathlib import Path

import pytest

from distributary.core.environment import ENV_PREFIX
from distributary.core.errors import SettingsError
from distributary.core.log import BODY_BYTES_MAX
from distributary.server import settings
from distributary.server.settings import Settings


def test_defaults_stand_where_nothing_is_said() -> None:
    """No flag, no variable, no file: every value is the default of the table."""
    assert settings.load({}, {}, None) == Settings()


def test_a_flag_wins_over_the_environment_and_that_over_the_file() -> None:
    """Each source replaces the weaker ones, setting by setting."""
    toml = "port = 1\nhost = '10.0.0.1'\npartitions = 7"
    environ = {"DISTRIBUTARY_PORT": "2", "DISTRIBUTARY_HOST": "10.0.0.2", "HOME": "/"}
    chosen = settings.load({"port": "3", "host": None}, environ, toml)
    assert (chosen.port, chosen.host, chosen.partitions) == (3, "10.0.0.2", 7)


def test_every_fault_of_every_source_is_named_at_once() -> None:
    """One message has a line for each fault, spelled as its source spells it."""
    with pytest.raises(SettingsError) as caught:
        settings.load(
            {"port": "abc"},
            {"DISTRIBUTARY_PARTITIONS": "0", "DISTRIBUTARY_PROT": "1"},
            "hst = 'x'\nepoch_s = true",
        )
    headline, *lines = str(caught.value).splitlines()
    assert headline == "These settings cannot be used:"
    assert len(lines) == 5
    for beginning in (
        "--port: expected a whole number from 0 to 65,535; got 'abc'",
        "DISTRIBUTARY_PARTITIONS: expected a whole number from 1 to 64; got '0'",
        "DISTRIBUTARY_PROT: there is no such setting; did you mean DISTRIBUTARY_PORT?",
        "hst (configuration file): there is no such setting; did you mean host",
        "epoch_s (configuration file): expected a duration",
    ):
        assert any(line.startswith(beginning) for line in lines), beginning


def test_a_replaced_value_is_checked_all_the_same() -> None:
    """A broken file is a fault even where a flag hides its value."""
    with pytest.raises(SettingsError, match=r"port \(configuration file\)"):
        settings.load({"port": "9000"}, {}, "port = 70000")


def test_a_file_that_is_no_toml_is_a_fault() -> None:
    """The parser's message, with its place, reaches the operator."""
    with pytest.raises(SettingsError, match=r"not TOML: .*line 1"):
        settings.load({}, {}, "port 9000")


@pytest.mark.parametrize(
    ("text", "size"),
    [("2048", 2048), ("64KiB", 65536), ("1 MiB", 1048576), ("1.5m", 1572864), (4096, 4096)],
    ids=str,
)
def test_sizes_are_read_with_their_units(text: object, size: int) -> None:
    """Units are binary; a bare number counts bytes."""
    assert settings.load({"event_bytes_max": text}, {}, None).event_bytes_max == size


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("1500ms", 1.5), ("5m", 300), ("1h", 3600), (2.5, 2.5)],
    ids=str,
)
def test_durations_are_read_with_their_units(text: object, seconds: float) -> None:
    """A bare number counts seconds."""
    assert settings.load({"epoch_s": text}, {}, None).epoch_s == seconds


@pytest.mark.parametrize(
    ("name", "raw"),
    [
        ("event_bytes_max", "1 parsec"),
        ("event_bytes_max", "1023"),
        ("event_bytes_max", "16 MiB"),
        ("event_bytes_max", float("inf")),
        ("event_bytes_max", float("nan")),
        ("event_bytes_max", True),
        ("event_bytes_max", ""),
        ("epoch_s", "nan"),
        ("epoch_s", float("nan")),
        ("epoch_s", "-1s"),
        ("port", 80.5),
        ("port", True),
        ("port", "\u0663"),
        ("port", "8_0"),
        ("port", "9" * 5000),
        ("host", "a b"),
        ("public_url", "https://events.example.com/"),
        ("public_url", "https://me@events.example.com"),
        ("public_url", "https://:80"),
        ("public_url", "https://events.example.com:65536"),
        ("public_url", "https://events.example.com:0"),
        ("public_url", "https://[::1"),
        ("public_url", "https://[1::2::3]"),
        ("public_url", "https://a\\b"),
        ("data_dir", ""),
        ("data_dir", "a\0b"),
        ("log_level", "loud"),
        ("allow_sinks", "10.0.0.1/8"),
        ("allow_sinks", [1]),
        ("spark_conf", "spark.driver.memory"),
        ("spark_conf", {"a": []}),
    ],
)
def test_a_value_that_does_not_fit_is_refused_by_name(name: str, raw: object) -> None:
    """Wrong units, bounds, types and nonsense: always a SettingsError that names the flag."""
    with pytest.raises(SettingsError, match="--" + name.replace("_", "-")):
        settings.load({name: raw}, {}, None)


@pytest.mark.parametrize(
    "url", ["http://h", "https://events.example.com", "http://10.0.0.1:8080", "https://[::1]:65535"]
)
def test_a_public_url_is_scheme_host_and_port(url: str) -> None:
    """As Brokers and Channels show it."""
    assert settings.load({"public_url": url}, {}, None).public_url == url


@pytest.mark.parametrize("size", [1024, 15 * 1024 * 1024], ids=["least", "most"])
def test_the_bounds_themselves_are_accepted(size: int) -> None:
    """Limits are inclusive."""
    assert settings.load({"event_bytes_max": size}, {}, None).event_bytes_max == size


def test_networks_come_as_text_or_as_a_list() -> None:
    """Commas in flags and the environment, an array in TOML."""
    nets = ("10.0.0.0/8", "fd00::/8")
    assert settings.load({"allow_sinks": "10.0.0.0/8, fd00::/8"}, {}, None).allow_sinks == nets
    toml = 'allow_sinks = ["10.0.0.0/8", "fd00::/8"]'
    assert settings.load({}, {}, toml).allow_sinks == nets


def test_spark_properties_come_as_text_or_as_a_table() -> None:
    """Values become text as Spark spells them."""
    said = settings.load({"spark_conf": "a.b=1,c=x=y"}, {}, None)
    assert said.spark_conf == {"a.b": "1", "c": "x=y"}
    written = settings.load({}, {}, '[spark_conf]\n"a.b" = 1\nc = true')
    assert written.spark_conf == {"a.b": "1", "c": "true"}


def test_settings_travel_to_other_processes() -> None:
    """Serve hands them to the processes that it starts."""
    chosen = settings.load({"spark_conf": "a=b", "java_home": "/java"}, {}, None)
    assert pickle.loads(pickle.dumps(chosen)) == chosen


def test_the_table_has_a_row_for_every_setting_and_its_defaults_can_be_loaded() -> None:
    """What --help shows as default is accepted when it is said."""
    rows = settings.settings_table()
    flags = {row.name: row.default for row in rows if row.default and row.name != "spark_conf"}
    assert settings.load(flags, {}, None) == Settings()
    tables = {"certificates", "issuers", "keys", "namespaces", "secrets", "sources"}  # of the file
    names = {field.name for field in dataclasses.fields(Settings)} - tables
    assert sorted(row.name for row in rows) == sorted(names)
    for row in rows:
        assert row.flag == "--" + row.name.replace("_", "-")
        assert row.variable == ENV_PREFIX + row.name.upper()
        assert row.about.endswith(".")


def test_the_named_configuration_file_must_be_there(tmp_path: Path) -> None:
    """A misspelt --config is an error; without any name a file is optional."""
    assert settings.config_file(None, {}, tmp_path) is None
    for flag, environ in (("x.toml", {}), (None, {"DISTRIBUTARY_CONFIG": "x.toml"})):
        with pytest.raises(SettingsError, match=r"no configuration file .*x\.toml"):
            settings.config_file(flag, environ, tmp_path)


def test_the_configuration_file_is_found_by_flag_then_environment_then_place(
    tmp_path: Path,
) -> None:
    """The strongest name wins."""
    for name in ("a.toml", "b.toml", "distributary.toml"):
        (tmp_path / name).write_text("")
    environ = {"DISTRIBUTARY_CONFIG": "b.toml"}
    assert settings.config_file("a.toml", environ, tmp_path) == tmp_path / "a.toml"
    assert settings.config_file(None, environ, tmp_path) == tmp_path / "b.toml"
    assert settings.config_file(None, {}, tmp_path) == tmp_path / "distributary.toml"


def test_the_largest_request_fits_a_record() -> None:
    """Its attributes stand in headers, which are not part of its body: they have room beside it."""
    assert settings.EVENT_BYTES_CAP + 1024 * 1024 <= BODY_BYTES_MAX


@pytest.mark.parametrize(("raw", "on"), [(True, True), ("true", True), ("false", False)], ids=str)
def test_a_switch_is_on_or_off(raw: object, on: bool) -> None:
    """Its flag has no value; files and variables say true or false."""
    assert settings.load({"no_auth": raw}, {}, None).no_auth is on
    for wrong in ("yes", "1", 1, ""):
        with pytest.raises(SettingsError, match="expected true or false"):
            settings.load({"no_auth": wrong}, {}, None)


def test_allowed_hosts_are_names_alone() -> None:
    """In one spelling, whatever the source."""
    loaded = settings.load({"allowed_hosts": "Events.shop.svc, other_1."}, {}, None)
    assert loaded.allowed_hosts == ("events.shop.svc", "other_1")
    toml = 'allowed_hosts = ["events.shop.svc"]'
    assert settings.load({}, {}, toml).allowed_hosts == ("events.shop.svc",)
    for wrong in ("a:80", "http://a", "*", "*.example", "a b", "-a", "a" * 300, "\u00e4"):
        with pytest.raises(SettingsError, match="--allowed-hosts: expected host names"):
            settings.load({"allowed_hosts": wrong}, {}, None)


@pytest.mark.parametrize(
    ("given", "chosen"),
    [
        ("", ""),
        ("off", "off"),
        ("/mnt/history/", "/mnt/history"),
        ("shop/history", "shop/history"),
        ("s3a://bucket/shop history", None),
        ("s3a://key@bucket/history", "s3a://key@bucket/history"),
        ("s3a://key:secret@bucket/history", None),
        ("s3a://bucket/history?x=1", None),
        ("file:///mnt/history", "file:///mnt/history"),
        ("file:///", None),
        ("file://host/history", None),
        ("/mnt/history-*", None),
        ("/mnt/a\0b", None),
        ("://x", None),
    ],
)
def test_history_is_off_or_a_folder_that_spark_names(given: str, chosen: str | None) -> None:
    """Passwords, patterns and files of other machines are refused at the start."""
    if chosen is None:
        with pytest.raises(SettingsError, match="--history: expected off, a path"):
            settings.load({"history": given}, {}, None)
    else:
        assert settings.load({"history": given}, {}, None).history == chosen


@pytest.mark.parametrize(
    "name", ["DISTRIBUTARY_NAMESPACE", "DISTRIBUTARY_TOKEN", "DISTRIBUTARY_URL"]
)
def test_variables_of_client_commands_are_no_settings(name: str) -> None:
    """They stand in the environment of who starts a server and uses it."""
    assert settings.load({}, {name: "x"}, None) == settings.load({}, {}, None)
