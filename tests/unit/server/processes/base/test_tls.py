"""Certificates over all processes: which are used, and what becomes of unusable ones."""

import asyncio
import dataclasses
import os
import time

import pytest

from distributary.core.errors import SettingsError
from distributary.net.tls import ServerCertificates
from distributary.server.processes.base.tls import (
    ReceiverTls,
    TlsContexts,
    TlsMemory,
    TlsWatch,
    files_of,
)
from distributary.server.processes.control.reload import OF_TLS, change_of
from distributary.server.settings import load
from distributary.testing.virtual import VirtualClock
from kit.certificates import Authority, write_pair

AUTHORITY = Authority()


class Lines:
    """A log that keeps what is told."""

    def __init__(self):
        self.told = []

    def _tell(self, name, **fields):
        self.told.append((name, fields))

    info = warning = error = _tell

    def names(self):
        return [name for name, _ in self.told]


@pytest.fixture
def world(tmp_path):
    """A server with a pair of files."""
    return World(tmp_path)


class World:
    """A pair of files, followed."""

    def __init__(self, folder):
        self.folder = folder
        self.clock = VirtualClock(wall_ms=int(time.time() * 1000))
        self.log = Lines()
        self.memory = TlsMemory()
        self.replace(AUTHORITY.server("localhost"))
        self.files = files_of(self.settings())
        self.watch = TlsWatch(self.files, self.memory, self.clock, self.log)

    def settings(self, **more):
        flags = {"tls_cert_file": f"{self.folder}/s.crt", "tls_key_file": f"{self.folder}/s.key"}
        return load({**flags, **more}, {}, None)

    def replace(self, pair):
        return write_pair(self.folder, "s", pair)

    def used(self):
        return self.memory.read()[1].chain.encode()


FAULTY = {
    "key alone": ({"tls_key_file": "k"}, "tls_key_file is set, and tls_cert_file is not"),
    "certificate alone": ({"tls_cert_file": "c"}, "tls_cert_file is set, and tls_key_file is not"),
    "no authorities": (
        {"tls_cert_file": "c", "tls_key_file": "k", "tls_client_certs": "required"},
        "tls_client_certs is required, and tls_client_ca_file is not set",
    ),
    "nobody is asked": (
        {"tls_cert_file": "c", "tls_key_file": "k", "tls_client_ca_file": "a"},
        "tls_client_ca_file is set, and tls_client_certs is off",
    ),
    "clients without TLS": (
        {"tls_client_ca_file": "a", "tls_client_certs": "optional"},
        "tls_client_certs needs TLS",
    ),
}


@pytest.mark.parametrize(("flags", "fault"), FAULTY.values(), ids=FAULTY)
def test_settings_that_do_not_fit_together_are_refused(flags, fault):
    """With what to do about it."""
    with pytest.raises(SettingsError, match=fault):
        files_of(load(flags, {}, None))


def test_without_files_there_is_no_tls():
    """The default."""
    assert files_of(load({}, {}, None)) is None


def test_a_new_pair_is_used_once_it_is_there(world):
    """By every process that shares the memory."""
    receiver = ReceiverTls(world.memory.fd)
    before = receiver._contexts()
    renewed = AUTHORITY.server("localhost")
    world.replace(renewed)
    world.watch.look()
    assert world.used() == renewed.certificate
    assert asyncio.run(receiver.look()) is False  # no authority was removed
    assert receiver._contexts() is not before
    assert world.log.names() == ["tls-reloaded"]


def test_unchanged_files_are_not_read_again(world):
    """The context stays: sessions under it can be resumed."""
    world.watch.look()
    assert world.log.names() == []
    assert world.memory.number() == 0


def test_a_broken_pair_keeps_the_one_in_use_and_is_told_once(world):
    """Not at the first look, which may be between certificate and key."""
    good = world.used()
    (world.folder / "s.key").write_bytes(AUTHORITY.server("localhost").key)
    for _ in range(4):
        world.watch.look()
    assert world.used() == good
    [(name, fields)] = world.log.told
    assert name == "tls-reload-refused"
    assert "Replace both together" in fields["faults"][0]
    renewed = AUTHORITY.server("localhost")
    world.replace(renewed)
    world.watch.look()
    assert world.used() == renewed.certificate


def test_a_pair_between_its_two_files_is_not_told(world):
    """Certificate first, then key, each by a rename."""
    pair = AUTHORITY.server("localhost")
    (world.folder / "s.crt").write_bytes(pair.certificate)
    world.watch.look()
    (world.folder / "s.key").write_bytes(pair.key)
    world.watch.look()
    assert world.used() == pair.certificate
    assert world.log.names() == ["tls-reloaded"]


def test_missing_files_keep_the_certificate_in_use(world):
    """Somebody moved them away."""
    good = world.used()
    (world.folder / "s.crt").unlink()
    world.watch.look()
    world.watch.look()
    assert world.used() == good
    assert world.log.names() == ["tls-reload-refused"]


def test_an_expired_certificate_does_not_replace_one_that_is_valid(world):
    """A renewal that put the wrong file there."""
    good = world.used()
    pair = AUTHORITY.server("localhost", days=-1)
    world.replace(pair)
    with pytest.raises(SettingsError, match="has expired"):
        world.watch.change(world.files)
    assert world.used() == good


def test_an_expiry_is_warned_of_once_a_day(world):
    """A week before, and each day until somebody renews it."""
    end_s = world.watch.not_after_s

    def move_to(wall_s):
        world.clock.jump(int(wall_s * 1000) - world.clock.wall_ms())

    move_to(end_s - 8 * 86_400)
    world.watch.warn()
    assert world.log.names() == []
    move_to(end_s - 6 * 86_400)
    world.watch.warn()
    world.watch.warn()
    move_to(end_s + 60)
    world.watch.warn()
    assert world.log.names() == ["tls-certificate-expires", "tls-certificate-expired"]


def test_a_torn_write_is_read_again():
    """A reader that meets half of it has the certificates of before."""
    memory = TlsMemory()
    pair = AUTHORITY.server("localhost")

    found = ServerCertificates(
        chain=pair.certificate.decode(),
        key=pair.key.decode(),
        client_ca=None,
        required=False,
        not_after_s=1.0,
    )
    memory.write(1, found)
    contexts = TlsContexts(memory)
    used = contexts()
    os.pwrite(memory.fd, b"\x02", 0)  # the number of a newer write whose rest is not there yet
    os.pwrite(memory.fd, b"\0", 100)  # in no certificate
    assert contexts.changed
    assert contexts.renew() is False
    assert contexts() is used
    memory.write(2, found)
    contexts.renew()
    assert not contexts.changed


def test_a_removed_authority_is_noticed(tmp_path):
    """An added one is none of it, nor another order."""
    world = World(tmp_path)
    other = Authority("Other")
    path = tmp_path / "clients.pem"
    path.write_bytes(AUTHORITY.pem)
    world.watch.change(
        files_of(world.settings(tls_client_ca_file=str(path), tls_client_certs="required"))
    )
    receiver = ReceiverTls(world.memory.fd)

    def look(*authorities):
        path.write_bytes(b"".join(each.pem for each in authorities))
        world.watch.look()
        return asyncio.run(receiver.look())

    assert look(other, AUTHORITY) is False
    assert look(AUTHORITY, other) is False
    assert look(other) is True


def test_other_files_apply_at_once_and_tls_itself_at_a_restart():
    """The URLs of everything depend on it."""
    plain = load({}, {}, None)
    one = load({"tls_cert_file": "a", "tls_key_file": "b"}, {}, None)
    other = dataclasses.replace(one, tls_key_file=one.tls_cert_file)
    assert set(change_of(plain, one).waiting) == {"tls_cert_file", "tls_key_file"}
    assert change_of(plain, one).settings == plain
    assert change_of(one, other).applied == ("tls_key_file",)
    assert set(change_of(one, plain).waiting) <= OF_TLS
