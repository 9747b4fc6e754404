"""The gate: keys, certificates, what is remembered, and for how long."""

import random

import pytest

from distributary.access import (
    ANYBODY,
    AccessSnapshot,
    CertificateRecord,
    Credentials,
    ForbiddenError,
    Gate,
    Grant,
    KeyRecord,
    NewKey,
    PeerCertificate,
    Permission,
    UnauthenticatedError,
    Verb,
    challenge,
    decode_snapshot,
    make_key,
)

SHOP = Grant(may=(Verb.PUBLISH,), namespaces=("shop",))


class Wall:
    """A wall clock that a test moves."""

    def __init__(self) -> None:
        self.now_ms = 1_000_000

    def __call__(self) -> int:
        return self.now_ms


def made(seed: int = 0) -> NewKey:
    """A key from a seed."""
    return make_key(random.Random(seed).randbytes)


def record(key: NewKey, name: str = "till", until_ms: int | None = None) -> KeyRecord:
    """The server's record of *key*."""
    return KeyRecord(id=key.id, name=name, sha256=key.sha256, grants=(SHOP,), until_ms=until_ms)


def bearer(text: str) -> Credentials:
    """*text* as a client shows it."""
    return Credentials(b"Bearer " + text.encode())


@pytest.fixture
def wall():
    """A clock."""
    return Wall()


@pytest.fixture
def gate(wall):
    """A gate that knows one key."""
    found = Gate(wall)
    found.replace(AccessSnapshot(required=True, keys=(record(made()),)))
    return found


def test_without_a_requirement_everybody_passes(wall):
    """Whatever is shown, and nothing is read."""
    gate = Gate(wall)
    assert not gate.required
    assert gate.identify(Credentials(b"nonsense")) is ANYBODY


def test_a_key_shows_who_holds_it(gate):
    """The name is the key's; the scheme is case-insensitive (RFC 9110, 11.1)."""
    shown = gate.identify(bearer(made().text))
    assert (shown.name, shown.how, shown.grants) == ("key:till", "key", (SHOP,))
    assert gate.identify(Credentials(b"bEARER  " + made().text.encode())) == shown


WRONG = {
    "nothing": b"",
    "other scheme": b"Basic dDp0",
    "scheme alone": b"Bearer",
    "no key": b"Bearer x",
    "other key": b"Bearer " + made(1).text.encode(),
    "cut": b"Bearer " + made().text.encode()[:-1],
    "longer": b"Bearer " + made().text.encode() + b"A",
    "other secret": b"Bearer " + made().text.encode()[:-2] + b"zz",
    "id of one, secret of another": (
        b"Bearer " + made().text.rpartition("_")[0].encode() + made(1).text[19:].encode()
    ),
    "not ASCII": b"Bearer \xff",
    "two": b"Bearer " + made().text.encode() + b", Bearer x",
    "long": b"Bearer " + b"a" * 8_192,
    "upper case": b"Bearer " + made().text.upper().encode(),
}


@pytest.mark.parametrize("value", WRONG.values(), ids=WRONG.keys())
def test_what_is_no_key_is_refused(gate, value):
    """The message never repeats it; what can be mended by showing anything gets no error code."""
    with pytest.raises(UnauthenticatedError) as caught:
        gate.identify(Credentials(value))
    said = value.partition(b" ")[2][:40].decode("latin-1")
    assert not said or said not in str(caught.value)
    assert caught.value.request_code in {"unauthenticated", "invalid-credentials"}


def test_the_challenge_says_whether_something_was_wrong():
    """RFC 6750 section 3.1: no error code where nothing was shown."""
    assert challenge("unauthenticated") == 'Bearer realm="distributary"'
    assert challenge("invalid-credentials") == 'Bearer realm="distributary", error="invalid_token"'


def test_a_key_expires(gate, wall):
    """At its time, even where it is remembered."""
    gate.replace(AccessSnapshot(required=True, keys=(record(made(), until_ms=wall() + 10),)))
    shown = bearer(made().text)
    identity = gate.identify(shown)
    gate.admit(shown, "", identity)
    wall.now_ms += 9
    gate.renew()
    assert gate.identify(shown) is identity
    assert (shown, "") in gate.admitted
    wall.now_ms += 1
    with pytest.raises(UnauthenticatedError, match="expired"):
        gate.identify(shown)
    gate.renew()
    assert not gate.admitted
    with pytest.raises(UnauthenticatedError, match="expired"):
        gate.identify(shown)


def test_a_revoked_key_is_forgotten(gate):
    """With everything that was admitted by it."""
    shown = bearer(made().text)
    gate.admit(shown, "", gate.identify(shown))
    gate.replace(AccessSnapshot(required=True))
    assert not gate.admitted
    with pytest.raises(UnauthenticatedError):
        gate.identify(shown)


def test_a_check_says_what_is_missing(gate):
    """Who, what and where."""
    identity = gate.identify(bearer(made().text))
    gate.check(identity, Permission(Verb.PUBLISH, "shop", "brokers/default"))
    with pytest.raises(ForbiddenError) as caught:
        gate.check(identity, Permission(Verb.READ, "bank"))
    assert str(caught.value) == "key:till may not read in namespace bank."
    assert caught.value.request_code == "forbidden"


def test_memory_is_bounded(gate, monkeypatch):
    """A client that shows ever new addresses makes the memory begin anew."""
    monkeypatch.setattr("distributary.access.gate.REMEMBERED_MAX", 10)
    shown = bearer(made().text)
    identity = gate.identify(shown)
    for number in range(100):
        gate.admit(shown, str(number), identity)
    assert len(gate.admitted) <= 10


SPIFFE = PeerCertificate(("uri:spiffe://shop/till", "dns:till.shop"), 2_000_000)


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        ("uri:spiffe://shop/*", "uri:spiffe://shop/till"),
        ("dns:till.shop", "dns:till.shop"),
        ("uri:spiffe://shop/till", "uri:spiffe://shop/till"),
    ],
)
def test_a_certificate_shows_who_holds_it(wall, pattern, name):
    """By any of its names; a header field counts first."""
    gate = Gate(wall)
    accepted = CertificateRecord(pattern=pattern, grants=(SHOP,))
    gate.replace(AccessSnapshot(required=True, certificates=(accepted,), keys=(record(made()),)))
    holder = gate.identify(Credentials(b"", SPIFFE))
    assert (holder.name, holder.subject) == (f"certificate:{name}", name)
    assert holder.until_ms == SPIFFE.until_ms
    shown = Credentials(b"Bearer " + made().text.encode(), SPIFFE)
    assert gate.identify(shown).name == "key:till"
    with pytest.raises(UnauthenticatedError):
        gate.identify(Credentials(b"Bearer x", SPIFFE))


@pytest.mark.parametrize("pattern", ["uri:spiffe://shop/til", "dns:*.shop", "cn:till", "dns:"])
def test_another_name_is_a_stranger(wall, pattern):
    """A star counts at the end alone."""
    gate = Gate(wall)
    accepted = CertificateRecord(pattern=pattern, grants=(SHOP,))
    gate.replace(AccessSnapshot(required=True, certificates=(accepted,)))
    with pytest.raises(UnauthenticatedError):
        gate.identify(Credentials(b"", SPIFFE))


def test_a_snapshot_survives_its_file():
    """And holds no key."""
    snapshot = AccessSnapshot(required=True, keys=(record(made(), until_ms=7),))
    data = snapshot.encode()
    assert decode_snapshot(data) == snapshot
    assert made().text.rpartition("_")[2].encode() not in data


def test_a_new_key_does_not_show_itself():
    """Not in a log, not in a traceback."""
    assert made().text not in repr(made())


def test_the_minute_of_a_keys_last_use_is_noted(gate, wall):
    """When it is identified; one that is refused was not used."""
    wall.now_ms = 120_500
    gate.renew()
    with pytest.raises(UnauthenticatedError):
        gate.identify(bearer(made(1).text))
    assert gate.uses == {}
    gate.identify(bearer(made().text))
    assert gate.uses == {made().id: 120_000}


def test_whoever_goes_on_publishing_is_noted_again_each_minute(gate, wall):
    """What was admitted is forgotten then, so the next request is asked as the first was."""
    shown = bearer(made().text)
    gate.admit(shown, "", gate.identify(shown))
    wall.now_ms += 1_000
    gate.renew()
    assert (shown, "") in gate.admitted
    wall.now_ms = 180_000
    gate.renew()
    assert gate.admitted == {}
    gate.identify(shown)
    assert gate.uses == {made().id: 180_000}


def test_uses_of_revoked_keys_are_forgotten(gate):
    """There are as many as valid keys, at most."""
    gate.identify(bearer(made().text))
    gate.replace(AccessSnapshot(required=True, keys=(record(made(1), "press"),)))
    assert gate.uses == {}
