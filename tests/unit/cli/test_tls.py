"""Options of TLS: what commands trust and show, and what the kubeconfig holds of it."""

import base64
import ssl
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml
from typer.testing import CliRunner

from distributary.cli._commands import app
from distributary.cli._tls import ClientTls, choose, chosen
from distributary.core.errors import SettingsError
from kit.certificates import Authority, write_pair

AUTHORITY = Authority()


class Files(NamedTuple):
    """Files of a user."""

    ca: Path
    certificate: Path
    key: Path


@pytest.fixture
def files(tmp_path: Path) -> Files:
    """An authority, and a client's certificate and key."""
    ca = AUTHORITY.write(tmp_path / "ca.pem")
    return Files(ca, *write_pair(tmp_path, "till", AUTHORITY.client()))


@pytest.fixture(autouse=True)
def nothing_chosen() -> None:
    """As at the start of a command."""
    choose(ClientTls())


def kubeconfig(*options: str, server: str = "https://events.example", **environ: str) -> str:
    """What the command prints."""
    ended = CliRunner().invoke(app, [*options, "kubeconfig", "--server", server], env=environ)
    assert ended.exit_code == 0, ended.output
    return ended.stdout


def test_a_connection_verifies_certificates_and_names(files: Files) -> None:
    """With the system's authorities, or with those that are named."""
    for tls in (ClientTls(), ClientTls(files.ca), ClientTls(*files)):
        context = tls.context()
        assert context.verify_mode is ssl.CERT_REQUIRED
        assert context.check_hostname
    assert [each["subject"] for each in ClientTls(files.ca).context().get_ca_certs()] == [
        ((("commonName", "Test authority"),),)
    ]


def test_certificate_and_key_may_be_one_file(files: Files, tmp_path: Path) -> None:
    """As many tools write them."""
    both = tmp_path / "both.pem"
    both.write_bytes(files.key.read_bytes() + files.certificate.read_bytes())
    ClientTls(certificate=both).context()


def test_files_that_cannot_be_used_are_named(files: Files, tmp_path: Path) -> None:
    """With the option that named them."""
    garbage = tmp_path / "garbage"
    garbage.write_text("-----BEGIN canary-----")
    cases = {
        "--ca-file .*garbage": ClientTls(garbage),
        "--ca-file .*none": ClientTls(tmp_path / "none"),
        "--client-cert-file .*garbage": ClientTls(certificate=garbage, key=files.key),
        "--client-cert-file .*till.crt": ClientTls(certificate=files.certificate, key=garbage),
        "--client-key-file needs --client-cert-file": ClientTls(key=files.key),
    }
    for expected, tls in cases.items():
        with pytest.raises(SettingsError, match=expected) as caught:
            tls.context()
        assert "canary" not in str(caught.value)


def test_the_kubeconfig_holds_the_authority_and_names_certificate_and_key(files: Files) -> None:
    """A private key is not copied."""
    text = kubeconfig(
        *("--ca-file", str(files.ca), "--client-cert-file", str(files.certificate)),
        *("--client-key-file", str(files.key)),
    )
    found = yaml.safe_load(text)
    authority = found["clusters"][0]["cluster"]["certificate-authority-data"]
    assert base64.b64decode(authority) == AUTHORITY.pem
    user = found["users"][0]["user"]
    assert (user["client-certificate"], user["client-key"]) == tuple(map(str, files[1:]))
    assert chosen() == ClientTls(*files)


def test_the_environment_counts_as_well(files: Files) -> None:
    """For scripts."""
    text = kubeconfig(DISTRIBUTARY_CA_FILE=str(files.ca))
    found = yaml.safe_load(text)
    assert "certificate-authority-data" in found["clusters"][0]["cluster"]
    assert "client-certificate" not in (found["users"][0]["user"] or {})


def test_plain_http_needs_none_of_it(files: Files) -> None:
    """A certificate has no place in a kubeconfig without TLS."""
    text = kubeconfig("--ca-file", str(files.ca), server="http://127.0.0.1:8080")
    assert "certificate" not in text
