"""Tables of sources: what they mean, and every fault of all of them at once."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from distributary.cli._serve import load_settings
from distributary.core.errors import SettingsError
from distributary.core.protocol import protocols
from distributary.server import settings
from distributary.sources import _tables, read_tables, readings, secret_variables
from distributary.sources._tables import SECRET_BYTES_MAX, SOURCES_MAX
from kit.servers import Authority

SECRET = "s3cret-canary"
URIS = {
    "MQTT3": "mqtt://broker.example",
    "MQTT5": "mqtts://broker.example:8883",
    "AMQP": "amqps://broker.example",
    "KAFKA": "kafka://k1.example:9092,k2.example:9092",
    "NATS": "nats://broker.example",
}


@pytest.fixture(autouse=True)
def _amqp_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether it is or not: nothing is connected here."""
    _say_absent(monkeypatch, None)


def _say_absent(monkeypatch: pytest.MonkeyPatch, absent: str | None) -> None:
    amqp = dataclasses.replace(protocols()["AMQP"], absent=absent)
    monkeypatch.setattr(_tables, "protocols", lambda: {**protocols(), "AMQP": amqp})


def _table(protocol: str = "NATS", **more: Any) -> dict[str, Any]:
    table = {"name": "orders", "protocol": protocol, "uri": URIS[protocol]}
    if readings()[protocol].place not in more:
        table[readings()[protocol].place] = "orders"
    return table | more


def _faults(*tables: dict[str, Any], environ: dict[str, str] | None = None) -> list[str]:
    specs, faults = read_tables(tables, environ or {})
    assert bool(faults) != bool(specs)
    return faults


def _one_fault(table: dict[str, Any], **environ: str) -> str:
    faults = _faults(table, environ=environ)
    assert len(faults) == 1, faults
    return faults[0]


@pytest.mark.parametrize("protocol", readings())
def test_a_short_table_is_a_source(protocol: str) -> None:
    """Name, protocol, URI and place are enough; events go to the default broker."""
    (spec,), faults = read_tables([_table(protocol)], {})
    assert not faults
    assert (spec.name, spec.protocol, spec.uri) == ("orders", protocol, URIS[protocol])
    assert (spec.place, spec.to, dict(spec.options)) == ("orders", "/events", {})
    assert spec.credential is None
    assert spec.ca_certs is None


@pytest.mark.parametrize(
    ("protocol", "options"),
    [
        ("MQTT3", {"qos": 0}),
        ("MQTT5", {"qos": 2}),
        ("KAFKA", {"group": "g", "offsetreset": "latest"}),
        ("NATS", {"durable": "d", "stream": "ORDERS"}),
    ],
)
def test_options_of_a_protocol_are_passed_on(protocol: str, options: dict[str, Any]) -> None:
    """As they stand, once checked."""
    (spec,), _ = read_tables([_table(protocol, **options, to="/brokers/default/main")], {})
    assert dict(spec.options) == options
    assert spec.to == "/brokers/default/main"


def test_the_path_of_a_uri_may_name_the_place() -> None:
    """For Kafka and AMQP, as in the URIs of sinks; beside it the key must say the same."""
    kafka = {"name": "a", "protocol": "KAFKA", "uri": "kafka://h/orders"}
    amqp = {"name": "b", "protocol": "AMQP", "uri": "amqp://h/my%20queue"}
    specs, faults = read_tables([kafka, amqp], {})
    assert not faults
    assert [spec.place for spec in specs] == ["orders", "my queue"]
    assert not _faults_of_both(kafka | {"topicname": "orders"})
    slashed = {"name": "b", "protocol": "AMQP", "uri": "amqp://h/queues/a"}
    assert not _faults_of_both(slashed | {"address": "/queues/a"})
    assert "the path of the URI names another" in _one_fault(kafka | {"topicname": "other"})


def _faults_of_both(table: dict[str, Any]) -> list[str]:
    return read_tables([table], {})[1]


NOT_KAFKA = (
    "expected an absolute URI with the scheme kafka or kafka+ssl; this one is of the protocol HTTP"
)


def test_every_fault_of_every_table_is_named_with_its_place() -> None:
    """One start shows them all: missing keys, unknown ones, and values of every kind."""
    faults = _faults(
        {},
        {"name": "Orders", "protocol": "nats", "uri": "nats://h"},
        _table("MQTT5", topicfiltre="x", qos=3, topicfilter="a/b+"),
        _table("KAFKA", uri="http://h", topicname="a b", acks="all"),
    )
    said = " (configuration file): "
    names = "expected the name of a topic: letters, digits, full stops, _ and -, at most 249"
    assert [fault.split(said) for fault in faults] == [
        ["sources[0].name", "is required"],
        ["sources[0].protocol", "is required"],
        ["sources[1].name", "expected a DNS label: a-z, 0-9 and -, at most 63 characters"],
        ["sources[1].protocol", "expected one of AMQP, KAFKA, MQTT3, MQTT5, NATS, in capitals"],
        ["sources[2].topicfiltre", "there is no such key; did you mean topicfilter?"],
        ["sources[2].topicfilter", "a + stands for a whole level: plant/+/events"],
        ["sources[2].qos", "expected 0, 1 or 2"],
        ["sources[3].acks", "there is no such key"],
        ["sources[3].uri", NOT_KAFKA],
        ["sources[3].topicname", names],
    ]


def test_two_sources_of_one_name_are_refused() -> None:
    """The broker knows them by it, and so do the metrics."""
    faults = _faults(_table(), _table())
    assert faults == ["sources[1].name (configuration file): another source has the name orders"]


def test_more_sources_than_one_process_can_hold_are_refused() -> None:
    """Before any of them is looked at."""
    faults = _faults(*[{} for _ in range(SOURCES_MAX + 1)])
    assert faults == [f"sources (configuration file): there are at most {SOURCES_MAX}"]


@pytest.mark.parametrize(
    ("protocol", "place"),
    [
        ("MQTT5", "plant/#/x"),
        ("MQTT5", "plant/x#"),
        ("MQTT5", "a\0b"),
        ("MQTT5", "\ud800"),
        ("MQTT5", "x" * 65_536),
        ("MQTT3", "$share/group"),
        ("MQTT3", "$share//x"),
        ("AMQP", "a\nb"),
        ("AMQP", "x" * 1_025),
        ("KAFKA", "^orders.*"),
        ("KAFKA", ".."),
        ("KAFKA", "x" * 250),
        ("NATS", "orders..made"),
        ("NATS", "orders.>.made"),
        ("NATS", "orders.m*"),
        ("NATS", "orders made"),
        ("NATS", "orders\r\nPUB x 0"),
        ("NATS", 7),
        ("NATS", ""),
    ],
)
def test_places_that_cannot_be_read_are_refused(protocol: str, place: Any) -> None:
    """Wildcards in the wrong place, characters that no name has, lengths, types."""
    key = readings()[protocol].place
    assert _one_fault(_table(protocol, **{key: place})).startswith(f"sources[0].{key} ")


@pytest.mark.parametrize(
    ("protocol", "place"),
    [
        ("MQTT5", "plant/+/events/#"),
        ("MQTT3", "#"),
        ("MQTT5", "+/+"),
        ("MQTT5", "$share/group/plant/#"),
        ("AMQP", "/queues/orders"),
        ("AMQP", "topic://orders"),
        ("NATS", "orders.*.made.>"),
        ("NATS", ">"),
        ("KAFKA", "orders_v1.x-y"),
    ],
)
def test_wildcards_may_be_read(protocol: str, place: str) -> None:
    """Unlike in places that are published to."""
    (spec,), faults = read_tables([_table(protocol, **{readings()[protocol].place: place})], {})
    assert not faults
    assert spec.place == place


@pytest.mark.parametrize(
    ("protocol", "key", "value"),
    [
        ("MQTT5", "qos", True),
        ("MQTT5", "qos", "1"),
        ("KAFKA", "group", ""),
        ("KAFKA", "group", "a\nb"),
        ("KAFKA", "offsetreset", "newest"),
        ("NATS", "durable", "a.b"),
        ("NATS", "durable", "x" * 33),
        ("NATS", "stream", "A B"),
        ("NATS", "to", "/subscriptions"),
        ("NATS", "to", "/brokers/default/../../x"),
        ("NATS", "to", "/brokers/default"),
        ("NATS", "uri", "nats://user:pw@h"),
        ("NATS", "uri", "nats://h/orders"),
        ("NATS", "uri", "nats://h:0"),
        ("NATS", "name", "a_b"),
        ("NATS", "name", 7),
    ],
)
def test_values_that_do_not_fit_are_refused(protocol: str, key: str, value: Any) -> None:
    """Each by its place, and nothing else is."""
    fault = _one_fault(_table(protocol, **{key: value}))
    assert fault.startswith(f"sources[0].{key} (configuration file): ")
    assert "pw" not in fault.partition(": ")[2]


# -- secrets ------------------------------------------------------------------------------------


def test_a_password_comes_from_a_file_or_a_variable(tmp_path: Path) -> None:
    """The end of the file's line is not part of it; nothing shows it."""
    file = tmp_path / "password"
    file.write_text(SECRET + "\n")
    by_file = _table(name="a", identifier="me", secret_file=str(file))
    by_variable = _table(name="b", identifier="me", secret_env="ORDERS_PASSWORD")
    by_token = _table(name="c", token_env="ORDERS_PASSWORD")
    specs, faults = read_tables([by_file, by_variable, by_token], {"ORDERS_PASSWORD": SECRET})
    assert not faults
    found = [spec.credential for spec in specs]
    assert all(found)
    assert [one.secret or one.access_token for one in found if one] == [SECRET] * 3
    assert [one.type for one in found if one] == ["PLAIN", "PLAIN", "ACCESSTOKEN"]
    assert SECRET not in repr(specs)


@pytest.mark.parametrize(
    "more",
    [
        {"secret_env": "NONE_SUCH", "identifier": "me"},
        {"secret_env": "DISTRIBUTARY_X", "identifier": "me"},
        {"secret_env": "a b", "identifier": "me"},
        {"secret_file": "missing", "identifier": "me"},
        {"secret_file": "a\0b", "identifier": "me"},
        {"secret_file": 7, "identifier": "me"},
        {"secret_env": "SET"},
        {"identifier": "me"},
        {"identifier": "", "secret_env": "SET"},
        {"identifier": "me", "secret_env": "SET", "token_env": "SET"},
        {"token_env": "EMPTY"},
        {"cacerts_file": "missing"},
    ],
    ids=str,
)
def test_credentials_that_cannot_be_had_are_faults(more: dict[str, Any]) -> None:
    """At the start, not when the broker refuses."""
    environ = {"SET": SECRET, "EMPTY": ""}
    fault = _one_fault(_table(**more), **environ)
    assert fault.partition(" ")[0].removeprefix("sources[0].") in {*more, "identifier"}
    assert SECRET not in fault


@pytest.mark.parametrize("key", ["secret", "password", "token", "accesstoken"])
def test_a_secret_in_the_file_itself_is_refused_and_not_repeated(key: str) -> None:
    """Files of settings are shared; where secrets belong is said."""
    fault = _one_fault(_table(**{key: SECRET}))
    assert "secret_file" in fault
    assert SECRET not in fault


def test_files_that_hold_no_secret_are_faults(tmp_path: Path) -> None:
    """Empty, huge, not text."""
    for number, raw in enumerate((b"", b"\n", b"x" * (SECRET_BYTES_MAX + 1), b"\xff\xfe")):
        file = tmp_path / str(number)
        file.write_bytes(raw)
        assert "cannot be read" in _one_fault(_table(token_file=str(file)))


def test_certificates_that_are_none_are_a_fault(tmp_path: Path) -> None:
    """Not at the first connection."""
    file = tmp_path / "ca.pem"
    file.write_text("no certificate")
    assert "expected PEM" in _one_fault(_table(cacerts_file=str(file)))


def test_certificates_may_stand_between_comments_in_any_language(tmp_path: Path) -> None:
    """As in bundles: what is handed on has the certificates alone, which TLS takes."""
    pem = Authority(tmp_path).ca_certs
    file = tmp_path / "bundle.pem"
    file.write_text(f"# F\u0151tan\u00fas\u00edtv\u00e1ny\n{pem}", encoding="utf-8")
    (spec,), faults = read_tables([_table(cacerts_file=str(file))], {})
    assert not faults
    assert spec.ca_certs == pem.strip()


def test_amqp_without_its_library_is_a_fault_beside_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """At the start: the process of the sources would end with it, and no other source would run."""
    _say_absent(monkeypatch, "needs the extra distributary[amqp]")
    faults = _faults(_table("AMQP", address="\n"))
    assert [fault.partition(" ")[0] for fault in faults] == [
        "sources[0].protocol",
        "sources[0].address",
    ]
    assert "distributary[amqp]" in faults[0]


def test_variables_of_secrets_are_known_so_that_other_processes_do_not_get_them() -> None:
    """Whatever else the tables hold."""
    tables = [_table(secret_env="A"), _table(token_env="B"), _table(secret_env=7), _table()]
    assert secret_variables(tables) == ("A", "B")


# -- as part of all settings ---------------------------------------------------------------------


def _load(toml: str, **environ: str) -> settings.Settings:
    def check(tables: Mapping[str, settings.Tables]) -> list[str]:
        return read_tables(tables["sources"], environ)[1]

    return settings.load({}, environ, toml, check)


def test_tables_of_the_file_come_with_the_settings() -> None:
    """As they stand; the process that reads them checks them again."""
    toml = """
        port = 0
        [[sources]]
        name = "orders"
        protocol = "NATS"
        uri = "nats://h"
        subject = "orders.>"
    """
    assert [table["name"] for table in _load(toml).sources] == ["orders"]
    assert _load("port = 0").sources == ()


def test_faults_of_tables_stand_beside_those_of_all_settings() -> None:
    """In one message."""
    with pytest.raises(SettingsError) as caught:
        _load("prot = 0\n[[sources]]\nname = 'a'")
    lines = str(caught.value).splitlines()
    assert [line.partition(" ")[0] for line in lines[1:]] == ["prot", "sources[0].protocol"]


@pytest.mark.parametrize("toml", ["sources = 'x'", f"sources = ['{SECRET}']", "[sources]\na = 1"])
def test_sources_that_are_no_tables_are_refused_and_not_repeated(toml: str) -> None:
    """People put passwords anywhere."""
    with pytest.raises(
        SettingsError, match=r"expected tables, each begun with \[\[sources\]\]"
    ) as e:
        _load(toml)
    assert SECRET not in str(e.value)


def test_no_variable_and_no_flag_can_say_sources() -> None:
    """And whoever tries is told where they stand."""
    for flags, environ in (({"sources": "x"}, {}), ({}, {"DISTRIBUTARY_SOURCES": "x"})):
        with pytest.raises(SettingsError, match="belong in the configuration file alone"):
            settings.load(flags, environ, None)
    assert "sources" not in {row.name for row in settings.settings_table()}


def test_serve_checks_the_tables_of_its_file(tmp_path: Path) -> None:
    """Before anything is started."""
    file = tmp_path / "distributary.toml"
    file.write_text("[[sources]]\nname = 'a'\nprotocol = 'NATS'\nuri = 'nats://h'\nsubject = 'x y'")
    with pytest.raises(SettingsError, match=r"sources\[0\]\.subject \(configuration file\)"):
        load_settings({}, str(file))
    file.write_text(file.read_text().replace("x y", "x.y"))
    assert load_settings({}, str(file)).sources[0]["subject"] == "x.y"
