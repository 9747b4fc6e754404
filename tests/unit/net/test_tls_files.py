"""Files of certificates: read, checked, and refused with what to do."""

import subprocess
from pathlib import Path

import pytest

from distributary.core.errors import SettingsError
from distributary.net.tls import TlsFiles, read_certificates
from kit.certificates import Authority, Pair, write_pair

AUTHORITY = Authority()


def files(folder: Path, pair: Pair, client_ca: bytes | None = None) -> TlsFiles:
    """Files with *pair*, and authorities of clients if there are any."""
    certificate, key = write_pair(folder, "server", pair)
    authorities = None
    if client_ca is not None:
        authorities = folder / "clients.pem"
        authorities.write_bytes(client_ca)
    return TlsFiles(certificate, key, authorities, "required" if client_ca else "off")


def test_reads_a_pair(tmp_path):
    """With authorities of clients; the key is not in its repr."""
    found = read_certificates(files(tmp_path, AUTHORITY.server("localhost"), AUTHORITY.pem))
    assert found.required
    assert found.client_ca == AUTHORITY.pem.decode()
    assert found.not_after_s > 0
    assert "PRIVATE" not in repr(found)


def encrypted(folder: Path) -> Path:
    """A key with a password."""
    path = folder / "encrypted.key"
    subprocess.run(
        ["openssl", "genpkey", "-algorithm", "ed25519", "-aes256", "-pass", "pass:x", "-out", path],
        check=True,
        capture_output=True,
    )
    return path


def test_every_fault_of_the_files_has_its_place(tmp_path):
    """Each names the setting, the file and what to do; none quotes the file."""
    good = files(tmp_path, AUTHORITY.server("localhost"), AUTHORITY.pem)
    other = write_pair(tmp_path, "other", AUTHORITY.server("localhost"))
    garbage = tmp_path / "garbage"
    garbage.write_bytes(b"-----BEGIN canary-----\n")
    cases = {
        "tls_cert_file .*No such file.* Name a file": good._replace(certificate=tmp_path / "none"),
        "tls_cert_file .*no certificate in PEM": good._replace(certificate=garbage),
        "tls_key_file .*not the key of the certificate.* Replace both": good._replace(key=other[1]),
        "tls_key_file .*no usable certificate and key": good._replace(key=garbage),
        "tls_key_file .*is encrypted.* without a password": good._replace(key=encrypted(tmp_path)),
        "tls_client_ca_file .*no certificate in PEM": good._replace(client_ca=garbage),
    }
    for expected, wrong in cases.items():
        with pytest.raises(SettingsError, match=expected) as caught:
            read_certificates(wrong)
        assert "canary" not in str(caught.value)


def test_two_unreadable_files_are_two_faults(tmp_path):
    """All faults at once."""
    wrong = TlsFiles(tmp_path / "a", tmp_path / "b", tmp_path / "c", "optional")
    with pytest.raises(SettingsError) as caught:
        read_certificates(wrong)
    assert len(str(caught.value).splitlines()) == 3
