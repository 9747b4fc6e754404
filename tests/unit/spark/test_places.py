"""Options that say where tables lie: every fault by its name, and no password anywhere."""

from pathlib import Path

import pytest

from distributary.core.cluster import KafkaPlace
from distributary.core.environment import LOG_PASSWORD_VARIABLE
from distributary.core.errors import SettingsError
from distributary.spark._options import parse_options, tables_of

LOG = {"log": "kafka://a:9092,b:9092/shop"}
STORE = "postgresql://reader@db/distributary"
SASL = {"logSasl": "SCRAM-SHA-512", "logUser": "spark"}


def _secret(folder: Path, text: str = "canary\n") -> str:
    path = folder / "secret"
    path.write_text(text)
    return f"file:{path}"


def test_a_log_on_kafka_is_enough_for_events(tmp_path: Path) -> None:
    """The password comes from a file, and is in nothing that is shown."""
    given = {**LOG, **SASL, "logPasswordFrom": _secret(tmp_path), "logTls": "true"}
    options = parse_options(given, {})
    assert options.places.log == KafkaPlace(
        servers=("a:9092", "b:9092"),
        prefix="shop",
        tls=True,
        sasl_mechanism="SCRAM-SHA-512",
        user="spark",
        password="canary",
    )
    assert "canary" not in repr(options)


def test_a_password_may_be_in_the_environment_of_the_server() -> None:
    """The variables that ``serve`` reads need no option."""
    found = parse_options({**LOG, **SASL}, {LOG_PASSWORD_VARIABLE: "canary"}).places.log
    assert found is not None
    assert found.password == "canary"


def test_a_settings_file_of_a_node_has_all_of_it(tmp_path: Path) -> None:
    """Its names are the server's; what the tables do not need is passed over."""
    path = tmp_path / "distributary.toml"
    _secret(tmp_path)
    path.write_text(
        f'host = "0.0.0.0"\nlog = "{LOG["log"]}"\nlog_sasl = "PLAIN"\nlog_user = "x"\n'
        f'log_password_file = "{tmp_path / "secret"}"\nstore = "{STORE}"\nlog_tls = true\n'
        'history = "/mnt/history"\n[[keys]]\nname = "k"\n'
    )
    places = parse_options({"settings": str(path), "logUser": "spark"}, {}).places
    assert places.log is not None
    assert (places.log.user, places.log.password, places.log.tls) == ("spark", "canary", True)
    assert places.store is not None
    assert places.history_folder == "/mnt/history"
    assert tables_of({"settings": str(path)}, {}) == (
        "events",
        "outcomes",
        "attempts",
        "dead_letters",
        "subscriptions",
    )


def test_tables_that_lie_nowhere_are_left_out() -> None:
    """A user who may read the topic alone has the events."""
    assert tables_of(LOG, {}) == ("events",)
    assert tables_of({"store": STORE}, {}) == ("dead_letters", "subscriptions")
    with pytest.raises(SettingsError, match="path: missing"):
        tables_of({}, {})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({**LOG, "path": "x"}, "path and log exclude one another"),
        ({"log": "kafka://a/shop"}, "log: expected kafka://host:port"),
        ({**LOG, "logTls": "yes"}, "logTls: expected true or false"),
        ({**LOG, "logCaFile": "/ca"}, "logCaFile: needs logTls"),
        ({**LOG, "logTls": "true", "logCertFile": "/c"}, "logCertFile and logKeyFile: one needs"),
        ({**LOG, "logUser": "u"}, "logUser: needs logSasl"),
        ({**LOG, "logSasl": "GSSAPI"}, "logSasl: expected one of PLAIN"),
        ({**LOG, **SASL}, "logPasswordFrom: missing"),
        ({**LOG, **SASL, "logPasswordFrom": "canary"}, "logPasswordFrom: expected env:NAME"),
        ({**LOG, **SASL, "logPasswordFrom": "file:/none"}, "logPasswordFrom: cannot read /none"),
        ({"logTls": "true"}, "logTls: needs log"),
        ({"store": "mysql://u@h/d", "table": "subscriptions"}, "begins with postgresql://"),
        ({"store": "postgresql://u:p@h/d", "table": "subscriptions"}, "password does not stand"),
        ({"storePasswordFrom": "env:X"}, "storePasswordFrom: needs store"),
        ({**LOG, "table": "dead_letters"}, "store: missing"),
        ({**LOG, "table": "outcomes"}, "history: missing"),
        ({"history": "s3a://b/h?x", "table": "outcomes"}, "history: expected a path"),
        ({"history": "off", "table": "outcomes"}, "history: the server keeps none"),
        ({"settings": "/none.toml"}, "settings: cannot read /none.toml"),
        ({**LOG, "archive": "/mnt?a"}, "archive: expected a path, or a URL"),
        ({**LOG, "logPassword": "canary"}, "give logPasswordFrom"),
    ],
)
def test_every_fault_has_the_name_of_its_option(given: dict[str, str], message: str) -> None:
    """And the message repeats no secret."""
    with pytest.raises(SettingsError) as caught:
        parse_options(given, {})
    assert message in str(caught.value)
    assert "canary" not in str(caught.value).replace("'canary'", "")


def test_a_command_of_a_settings_file_is_not_run(tmp_path: Path) -> None:
    """Whoever reads a table runs no program of the operator."""
    path = tmp_path / "distributary.toml"
    path.write_text(f'log = "{LOG["log"]}"\nlog_password_command = "pass show"\n')
    with pytest.raises(SettingsError, match="logPasswordFrom: give it, since"):
        parse_options({"settings": str(path)}, {})
