"""``config check`` and ``config show``: faults with their places, settings with origins."""

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.cli import main
from distributary.server import settings
from distributary.server.settings.new_key import make_configured_key
from kit.running_server import clean_environ


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder, and no variables of ours."""
    monkeypatch.chdir(tmp_path)
    for name in ("HOST", "PORT", "CONFIG", "DATA_DIR", "CREDENTIAL_KEY"):
        monkeypatch.delenv(f"DISTRIBUTARY_{name}", raising=False)
    monkeypatch.setenv("COLUMNS", "200")
    assert clean_environ()
    return tmp_path


def _run(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr("sys.argv", ["distributary", "config", *words])
    with pytest.raises(SystemExit) as caught:
        main()
    return int(caught.value.code or 0)


FAULTY = """\
port = 70000
hst = "x"  # host

[[namespaces]]
name = "a"

[[keys]]
name = "one"

[[keys]]
name = "two"
may = ["fly"]
"""


def test_every_fault_is_told_with_file_line_and_advice(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of the file and of the environment; a member that is missing stands at its table."""
    (folder / "x.toml").write_text(FAULTY)
    monkeypatch.setenv("DISTRIBUTARY_PARTITIONS", "0")
    assert _run(monkeypatch, "check", "x.toml") == 2
    said = capsys.readouterr().err
    file = folder / "x.toml"
    for line in (
        f"{file}:1: port: expected a whole number from 0 to 65,535; got 70000",
        f"{file}:2: hst: there is no such setting; did you mean host?",
        "DISTRIBUTARY_PARTITIONS: expected a whole number from 1 to 64; got '0'",
        f"{file}:7: keys[0].may: expected a list of verbs",
        f"{file}:12: keys[1].may: expected a list of verbs",
        "faults: a server would not start",
    ):
        assert line in said


def test_a_file_that_is_no_toml_is_told_with_its_line(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """And one that is not there, or no text."""
    (folder / "x.toml").write_text("port = 1\nhost =\n")
    assert _run(monkeypatch, "check", "x.toml") == 2
    assert f"{folder / 'x.toml'}:2: not TOML" in capsys.readouterr().err
    assert _run(monkeypatch, "check", "y.toml") == 2
    assert "There is no configuration file" in capsys.readouterr().err
    (folder / "z.toml").write_bytes(b"\xff")
    assert _run(monkeypatch, "check", "z.toml") == 2
    assert "cannot be read" in capsys.readouterr().err


def test_what_settings_name_is_looked_at(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Certificates, keys, Java, the data folder, Spark's slots: all at once, nothing is made."""
    (folder / "open.key").write_text("x")
    (folder / "open.key").chmod(0o644)
    (folder / "file").write_text("")
    (folder / "distributary.toml").write_text(
        'tls_cert_file = "/nowhere"\ntls_key_file = "/nowhere"\ncredential_key_file = "open.key"\n'
        'spark_master = "local[1]"\njava_home = "/nowhere"\ndata_dir = "file/data"\npartitions = 2'
    )
    assert _run(monkeypatch, "check") == 2
    said = capsys.readouterr().err
    for part in ("/nowhere", "others may read", "local[1]", "java home", "is no folder"):
        assert part in said, said
    assert sorted(path.name for path in folder.iterdir()) == [
        "distributary.toml",
        "file",
        "open.key",
    ]


def test_what_a_server_would_start_with_ends_with_zero(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With or without a file."""
    assert _run(monkeypatch, "check") == 0
    assert capsys.readouterr().out.startswith("no file: 0 settings and 0 tables")
    (folder / "distributary.toml").write_text("port = 9000\n[[namespaces]]\nname = 'a'\n")
    assert _run(monkeypatch, "check") == 0
    assert ": 1 setting and 1 table; a server would start" in capsys.readouterr().out


def test_settings_in_force_are_shown_with_their_origin_and_without_secrets(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Flag, variable, file with line, default; what is secret in any of them is three asterisks."""
    secret = "hush"
    made = make_configured_key({"name": "ops", "may": ["read"], "namespaces": ["*"]})
    digest = re.findall("[0-9a-f]{64}", made.table)[0]
    (folder / "distributary.toml").write_text(
        f"""port = 1
credential_key_command = "fetch {secret}"
[spark_conf]
"spark.hadoop.fs.s3a.secret.key" = "{secret}"
"fs.azure.account.key.x.dfs.core.windows.net" = "{secret}"
"spark.ui.enabled" = "false"
{made.table}"""
    )
    monkeypatch.setenv("DISTRIBUTARY_HOST", "::1")
    monkeypatch.setenv("DISTRIBUTARY_CREDENTIAL_KEY", secret)
    found = _run(monkeypatch, "show", "--port", "9000", "--json")
    out = capsys.readouterr()
    assert found == 0, out.err
    rows = {row["name"]: row for row in map(json.loads, out.out.splitlines())}
    file = folder / "distributary.toml"
    assert rows["port"] == {"name": "port", "value": "9000", "origin": "--port"}
    assert rows["host"]["origin"] == "DISTRIBUTARY_HOST"
    assert rows["epoch_s"] == {"name": "epoch_s", "value": "4h", "origin": "default"}
    assert rows["credential_key_command"]["value"] == "fetch ***"
    assert rows["credential_key_command"]["origin"] == f"{file}:2"
    assert rows["spark_conf"]["value"] == (
        "spark.hadoop.fs.s3a.secret.key=***, fs.azure.account.key.x.dfs.core.windows.net=***,"
        " spark.ui.enabled=false"
    )
    assert rows["keys[0]"]["origin"] == f"{file}:7"
    assert "name=ops" in rows["keys[0]"]["value"]
    assert rows["credential_key"]["value"] == "***"
    assert {row.name for row in settings.settings_table()} <= rows.keys()
    assert not {secret, digest} & set(out.out.replace('"', " ").replace("=", " ").split())
    assert secret not in out.out
    assert digest not in out.out


@given(st.text(), st.integers(0, 3), st.text(max_size=9))
def test_a_line_is_found_in_any_text(text: str, index: int, member: str) -> None:
    """Or the first one is named: never an error."""
    line = settings.line_of(text, "keys", index, member)
    assert 1 <= line <= max(1, len(text.splitlines()))
