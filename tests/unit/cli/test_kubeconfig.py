"""``distributary kubeconfig``: what kubectl needs to know."""

import sys

import pytest
import yaml
from typer.testing import CliRunner

from distributary.cli import _commands
from distributary.cli._commands import app


def printed(*words, **environment):
    """What is printed, as kubectl reads it."""
    result = CliRunner().invoke(app, ["kubeconfig", *words], env=environment)
    assert result.exit_code == 0, result.output
    return yaml.safe_load(result.stdout)


def test_it_names_the_server_a_namespace_and_a_user_without_credentials():
    """All that kubectl reads of a kubeconfig, and nothing secret."""
    config = printed()
    assert (config["kind"], config["apiVersion"]) == ("Config", "v1")
    ((cluster,), (context,), (user,)) = config["clusters"], config["contexts"], config["users"]
    assert cluster["cluster"] == {"server": "http://127.0.0.1:8080"}
    assert context["context"] == {
        "cluster": cluster["name"],
        "namespace": "default",
        "user": user["name"],
    }
    assert config["current-context"] == context["name"]
    assert user["user"] == {}


@pytest.mark.parametrize(
    ("server", "expected"),
    [
        ("https://events.example.com/", "https://events.example.com"),
        ("http://[::1]:8080", "http://[::1]:8080"),
        ("http://a.example/at:all", "http://a.example/at:all"),
    ],
)
def test_the_server_may_be_another(server, expected):
    """By option or by the variable that the other commands read."""
    assert printed("--server", server)["clusters"][0]["cluster"]["server"] == expected
    assert printed("--url", server)["clusters"][0]["cluster"]["server"] == expected
    config = printed(DISTRIBUTARY_URL=server)
    assert config["clusters"][0]["cluster"]["server"] == expected


@pytest.mark.parametrize(
    "server",
    ["nowhere", "ftp://a", "http://", "http://a:x", "http://u:p@a", "http://a?b", "http://a/#b"],
)
def test_what_is_no_server_is_told(server, monkeypatch, capsys):
    """With an example of what is; nothing is printed that kubectl would read."""
    monkeypatch.setattr(sys, "argv", ["distributary", "kubeconfig", "--server", server])
    with pytest.raises(SystemExit) as caught:
        _commands.main()
    assert caught.value.code not in (0, None)
    told = capsys.readouterr()
    assert told.out == ""
    assert "Expected a URL such as" in told.err.replace("\n", " ")


def test_a_token_in_a_file_is_named_and_stays_there(tmp_path):
    """Kubectl reads the file again now and then, so a key can be rotated."""
    path = tmp_path / "shop.key"
    path.write_text("dk_secret\n")
    config = printed("--token-from", f"file:{path}", "--namespace", "shop")
    assert config["users"][0]["user"] == {"tokenFile": str(path)}
    assert config["contexts"][0]["context"]["namespace"] == "shop"


def test_a_token_of_the_environment_is_printed_where_it_is_asked_for_alone():
    """Not because a variable happens to be set."""
    assert printed(DISTRIBUTARY_TOKEN="dk_x")["users"][0]["user"] == {}
    config = printed("--token-from", "env:SHOP_KEY", SHOP_KEY="dk_x")
    assert config["users"][0]["user"] == {"token": "dk_x"}


@pytest.mark.parametrize(("server", "warned"), [("http://a", True), ("https://a", False)])
def test_a_token_that_kubectl_would_not_send_is_warned_of(server, warned):
    """Kubectl shows credentials over TLS alone; other clients of Kubernetes may do otherwise."""
    words = ["kubeconfig", "--server", server, "--token-from", "env:SHOP_KEY"]
    result = CliRunner().invoke(app, words, env={"SHOP_KEY": "dk_x"})
    assert result.exit_code == 0
    assert ("serve TLS" in result.stderr) is warned
    assert yaml.safe_load(result.stdout)["users"][0]["user"] == {"token": "dk_x"}
