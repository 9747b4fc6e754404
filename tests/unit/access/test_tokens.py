"""Bearer tokens: what is accepted, and every known way to forge one."""

import hashlib
import hmac
import json

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from distributary.access._compact import TOKEN_BYTES_MAX
from distributary.access.identity import Identity, Permission, Verb
from distributary.access.issuers import ClaimRule, Issuer, IssuerRecord
from distributary.access.jwks import ALGORITHMS, key_set
from distributary.access.tokens import (
    ABOUT,
    RefusedToken,
    TokenFault,
    TokenVerifier,
    Trusted,
    VerifiedToken,
    verify,
)
from kit.minted import AUDIENCE, NOW_S, URL, SigningKey, claims_of, decode, encode, signing_key

ONE = signing_key()
OF_P256 = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
"""Order of the curve P-256."""


def trusting(*keys: SigningKey | dict, **changed: object) -> dict[str, Trusted]:
    """One issuer with *keys*, all of whose algorithms are allowed."""
    known = keys or (ONE,)
    jwks = [key.jwk() if isinstance(key, SigningKey) else key for key in known]
    usual = {"name": "shop", "url": URL, "audiences": (AUDIENCE,), "algorithms": ALGORITHMS}
    issuer = Issuer(**{**usual, **changed})
    return {issuer.url: Trusted(issuer, key_set(jwks))}


def outcome(token: bytes, trusted: dict[str, Trusted] | None = None, now_s: float = NOW_S) -> str:
    """``accepted``, or the fault."""
    found = verify(token, trusting() if trusted is None else trusted, now_s)
    return "accepted" if isinstance(found, VerifiedToken) else found.fault.value


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_accepts_a_token_of_each_allowed_algorithm(algorithm):
    """RSA, RSA-PSS, ECDSA and Ed25519; with subject, claims and the end of its validity."""
    key = signing_key(algorithm)
    found = verify(key.mint(claims_of(roles=["a"])), trusting(key), NOW_S)
    assert isinstance(found, VerifiedToken)
    assert found.subject == "system:serviceaccount:shop:till"
    assert found.claims["roles"] == ["a"]
    assert found.until_s == NOW_S + 3_600 + 30


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_refuses_an_algorithm_that_the_issuer_does_not_use(algorithm):
    """A valid signature does not help: algorithms are pinned by issuer."""
    key = signing_key(algorithm)
    others = tuple(name for name in ALGORITHMS if name != algorithm)
    token = key.mint(claims_of())
    assert outcome(token, trusting(key, algorithms=others)) == "algorithm-not-allowed"


@pytest.mark.parametrize("name", ["none", "None", "NONE", "nOnE", "", None, 5, ["none"], "none "])
@pytest.mark.parametrize("signature", [b"", b"AA"], ids=["empty", "some"])
def test_refuses_a_token_without_a_signature(name, signature):
    """``alg: none`` in every spelling, with an empty signature and with some."""
    header = encode(json.dumps({"alg": name, "kid": "one"}).encode())
    token = header + b"." + encode(json.dumps(claims_of()).encode()) + b"." + signature
    assert outcome(token) == ("algorithm-not-allowed" if signature else "malformed-token")


@pytest.mark.parametrize("algorithm", ["HS256", "HS384", "HS512"])
@pytest.mark.parametrize("form", ["pem", "der", "jwk", "pkcs1"])
def test_refuses_a_public_key_used_as_a_shared_secret(algorithm, form):
    """HMAC with the issuer's public key, in each form in which it may be stored."""
    key = signing_key("RS256")
    public = key.private.public_key()
    encodings = {
        "pem": ("PEM", "SubjectPublicKeyInfo"),
        "der": ("DER", "SubjectPublicKeyInfo"),
        "pkcs1": ("PEM", "PKCS1"),
    }
    if form == "jwk":
        secret = json.dumps(key.jwk()).encode()
    else:
        encoding, layout = encodings[form]
        secret = public.public_bytes(
            getattr(serialization.Encoding, encoding), getattr(serialization.PublicFormat, layout)
        )
    header = encode(json.dumps({"alg": algorithm, "kid": "one", "typ": "JWT"}).encode())
    signed = header + b"." + encode(json.dumps(claims_of()).encode())
    digest = getattr(hashlib, f"sha{algorithm[2:]}")
    token = signed + b"." + encode(hmac.new(secret, signed, digest).digest())
    for allowed in (ALGORITHMS, (*ALGORITHMS, algorithm)):  # whatever settings say
        assert outcome(token, trusting(key, algorithms=allowed)) == "algorithm-not-allowed"


def test_refuses_a_symmetric_key_that_an_issuer_publishes():
    """A key of type ``oct`` is none, so nothing can be signed with it."""
    secret = {"kty": "oct", "k": encode(b"s" * 64).decode(), "kid": "one", "alg": "HS256"}
    header = encode(json.dumps({"alg": "HS256", "kid": "one"}).encode())
    signed = header + b"." + encode(json.dumps(claims_of()).encode())
    token = signed + b"." + encode(hmac.new(b"s" * 64, signed, hashlib.sha256).digest())
    assert outcome(token, trusting(secret, ONE)) == "algorithm-not-allowed"


@pytest.mark.parametrize(
    "key_id",
    [
        "../../../../dev/null",
        "/dev/null",
        "file:///etc/passwd",
        "https://evil.example/keys.json",
        "one' OR '1'='1",
        "one; DROP TABLE keys",
        "one\x00",
        "ONE",
        "",
        "*",
        "x" * 4_000,
    ],
    ids=["up", "absolute", "file", "url", "sql", "sql2", "nul", "case", "empty", "star", "long"],
)
def test_a_key_id_is_compared_and_nothing_else(key_id):
    """A path, a URL, SQL or a very long one is a key that the issuer does not publish."""
    assert outcome(ONE.mint(claims_of(), {"kid": key_id})) == "unknown-key"


@pytest.mark.parametrize("key_id", [1, True, ["one"], {"kid": "one"}])
def test_refuses_a_key_id_that_is_no_text(key_id):
    """It could be no key of a set."""
    assert outcome(ONE.mint(claims_of(), {"kid": key_id})) == "malformed-token"


def test_without_a_key_id_the_only_key_counts():
    """RFC 7515 makes it optional; with two keys that fit there is nothing to choose by."""
    token = ONE.mint(claims_of(), {"kid": None})
    assert outcome(token) == "accepted"
    assert outcome(token, trusting(ONE, signing_key("RS256", "rsa"))) == "accepted"
    assert outcome(token, trusting(ONE, signing_key("ES256", "two"))) == "unknown-key"


def test_two_keys_of_one_id_are_told_apart_by_type_and_else_unusable():
    """RFC 7517 allows one ``kid`` for keys of different types."""
    token = ONE.mint(claims_of())
    assert outcome(token, trusting(signing_key("RS256"), ONE)) == "accepted"
    twin = signing_key("ES256", "other")._replace(key_id="one")
    assert outcome(token, trusting(ONE, twin)) == "unknown-key"


@pytest.mark.parametrize("member", ["jku", "x5u", "jwk", "x5c"])
def test_a_key_that_the_token_brings_is_not_looked_at(member):
    """The attacker's key stands in the header or behind its address; the issuer's counts."""
    attacker = signing_key("ES256", "evil")
    brought = {
        "jku": "https://evil.example/keys.json",
        "x5u": "https://evil.example/chain.pem",
        "jwk": attacker.jwk(),
        "x5c": [encode(b"certificate").decode()],
    }
    named = {member: brought[member]}
    assert outcome(attacker.mint(claims_of(), {**named, "kid": "one"})) == "bad-signature"
    assert outcome(attacker.mint(claims_of(), named)) == "unknown-key"
    assert outcome(ONE.mint(claims_of(), named)) == "accepted"


@pytest.mark.parametrize(
    "header",
    [
        {"crit": ["exp"]},
        {"crit": []},
        {"crit": ["b64"], "b64": False},
        {"b64": False},
        {"b64": True},
        {"typ": "logout+jwt"},
        {"typ": "dpop+jwt"},
        {"typ": 5},
    ],
    ids=str,
)
def test_refuses_a_header_that_changes_the_meaning(header):
    """Critical extensions, unencoded payloads, and tokens for another use."""
    assert outcome(ONE.mint(claims_of(), header)) == "malformed-token"


@pytest.mark.parametrize("kind", [None, "JWT", "jwt", "at+jwt", "application/at+jwt"])
def test_accepts_the_types_of_access_tokens(kind):
    """Kubernetes names none; RFC 9068 has its own."""
    assert outcome(ONE.mint(claims_of(), {"typ": kind})) == "accepted"


# -- signatures ---------------------------------------------------------------------------------


@pytest.mark.parametrize("raw", [bytes(64), b"\xff" * 64, b"", b"\x01", bytes(63), bytes(65)])
def test_refuses_empty_and_zero_signatures_of_ecdsa(raw):
    """R = s = 0 passes for any message where a verifier forgets to check the range."""
    signed = ONE.mint(claims_of()).rpartition(b".")[0]
    assert outcome(signed + b"." + encode(raw)) in ("bad-signature", "malformed-token")


@pytest.mark.parametrize(("r", "s"), [(0, 1), (1, 0), (OF_P256, 1), (1, OF_P256), (OF_P256, 0)])
def test_refuses_numbers_of_ecdsa_outside_the_curve(r, s):
    """R and s lie between 1 and the order of the curve less 1 (FIPS 186)."""
    signed = ONE.mint(claims_of()).rpartition(b".")[0]
    raw = r.to_bytes(32, "big") + s.to_bytes(32, "big")
    assert outcome(signed + b"." + encode(raw)) == "bad-signature"


def test_refuses_a_signature_of_ecdsa_in_der():
    """JOSE has r and s as they are; a second form would be a second token."""
    signed = ONE.mint(claims_of()).rpartition(b".")[0]
    der = ONE.private.sign(signed, ec.ECDSA(hashes.SHA256()))
    assert outcome(signed + b"." + encode(der)) == "bad-signature"


def test_the_other_signature_of_ecdsa_shows_the_same_claims():
    """(r, n - s) is as valid as (r, s), for any verifier: it grants nothing else, nor longer."""
    token = ONE.mint(claims_of())
    signed, _, part = token.rpartition(b".")
    raw = decode(part)
    other = (OF_P256 - int.from_bytes(raw[32:], "big")).to_bytes(32, "big")
    assert verify(signed + b"." + encode(raw[:32] + other), trusting(), NOW_S) == verify(
        token, trusting(), NOW_S
    )


def test_a_key_of_one_curve_signs_for_no_other():
    """A P-256 key under ``ES384``: the algorithm must fit the key."""
    signs = signing_key("ES256")
    header = {"alg": "ES384"}
    assert outcome(signs.mint(claims_of(), header)) == "unknown-key"
    assert outcome(signs.mint(claims_of(), header), trusting(signs.jwk(alg="ES384"))) == (
        "issuer-without-keys"
    )


@pytest.mark.parametrize(("signs", "claims"), [("RS256", "PS256"), ("PS256", "RS256")])
def test_a_key_for_one_padding_signs_for_no_other(signs, claims):
    """A key that names its algorithm is used for that one alone (RFC 8725, section 3.1)."""
    key = signing_key(signs)
    other = key._replace(algorithm=claims)
    assert outcome(other.mint(claims_of()), trusting(key)) == "unknown-key"
    open_key = {name: value for name, value in key.jwk().items() if name != "alg"}
    assert outcome(other.mint(claims_of()), trusting(open_key)) == "accepted"


def test_refuses_what_a_weak_key_signed():
    """RSA below 2,048 bits; such a key is not read at all."""
    weak = signing_key("RS256", "one", 1024)
    assert outcome(weak.mint(claims_of()), trusting(weak, signing_key("RS256", "two"))) == (
        "unknown-key"
    )


def test_refuses_the_signature_of_another_token():
    """Each part counts."""
    first, second = ONE.mint(claims_of()), ONE.mint(claims_of(sub="admin"))
    mixed = second.rpartition(b".")[0] + b"." + first.rpartition(b".")[2]
    assert outcome(mixed) == "bad-signature"


def test_refuses_a_token_of_another_issuers_key():
    """The issuer is chosen by ``iss``, so its keys alone verify."""
    other = signing_key("ES256", "two")
    trusted = {**trusting(ONE), **trusting(other, name="other", url="https://other.example")}
    assert outcome(other.mint(claims_of()), trusted) == "unknown-key"
    assert outcome(other.mint(claims_of(iss="https://other.example")), trusted) == "accepted"


# -- claims -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"iss": "https://evil.example"}, "unknown-issuer"),
        ({"iss": URL + "/"}, "unknown-issuer"),
        ({"iss": URL.upper()}, "unknown-issuer"),
        ({"iss": None}, "unknown-issuer"),
        ({"iss": [URL]}, "unknown-issuer"),
        ({"aud": "https://other.example"}, "wrong-audience"),
        ({"aud": ["https://other.example"]}, "wrong-audience"),
        ({"aud": []}, "wrong-audience"),
        ({"aud": [5, [AUDIENCE]]}, "wrong-audience"),
        ({"aud": AUDIENCE + "/"}, "wrong-audience"),
        ({"aud": AUDIENCE[:-1]}, "wrong-audience"),
        ({"aud": None}, "malformed-claims"),
        ({"aud": {"a": AUDIENCE}}, "malformed-claims"),
        ({"sub": None}, "malformed-claims"),
        ({"sub": ""}, "malformed-claims"),
        ({"sub": 7}, "malformed-claims"),
        ({"sub": "a\nb"}, "malformed-claims"),
        ({"sub": "x" * 1_025}, "malformed-claims"),
        ({"exp": None}, "malformed-claims"),
        ({"exp": str(int(NOW_S) + 60)}, "malformed-claims"),
        ({"exp": True}, "malformed-claims"),
        ({"exp": -1}, "malformed-claims"),
        ({"exp": 1e300}, "malformed-claims"),
        ({"exp": int(NOW_S) - 30}, "expired-token"),
        ({"exp": 0}, "expired-token"),
        ({"nbf": int(NOW_S) + 31}, "token-not-valid-yet"),
        ({"nbf": "soon"}, "malformed-claims"),
        ({"iat": int(NOW_S) + 31}, "token-not-valid-yet"),
        ({"iat": [5]}, "malformed-claims"),
        ({"iat": False}, "malformed-claims"),
    ],
    ids=str,
)
def test_refuses_claims_that_are_not_for_here_and_now(changed, expected):
    """Issuer, audience, subject and times, each wrong, missing and of another type."""
    assert outcome(ONE.mint(claims_of(**changed))) == expected


@pytest.mark.parametrize(
    "changed",
    [
        {"aud": ["https://other.example", AUDIENCE]},
        {"exp": int(NOW_S) - 29},
        {"exp": NOW_S + 0.5},
        {"nbf": int(NOW_S) + 30},
        {"iat": None},
        {"iat": int(NOW_S) + 30},
    ],
    ids=str,
)
def test_accepts_claims_within_the_leeway(changed):
    """30 s between the clocks; one audience of several; fractions of seconds."""
    assert outcome(ONE.mint(claims_of(**changed))) == "accepted"


def test_an_unknown_key_of_a_trusted_issuer_may_be_fetched():
    """The refusal names the issuer, from the settings; others name none."""
    unknown = ONE.mint(claims_of(), {"kid": "new"})
    assert verify(unknown, trusting(), NOW_S) == RefusedToken(TokenFault.KEY, URL)
    empty = {URL: Trusted(trusting()[URL].issuer, key_set([]))}
    assert verify(ONE.mint(claims_of()), empty, NOW_S) == RefusedToken(TokenFault.KEYS, URL)
    foreign = ONE.mint(claims_of(iss="https://evil.example"), {"kid": "new"})
    assert verify(foreign, trusting(), NOW_S) == RefusedToken(TokenFault.ISSUER)


def test_a_key_that_was_not_looked_for_yet_is_refused_for_now():
    """Its issuer may have begun to use it; after a fetch that found nothing it is refused."""
    now_ms = int(NOW_S * 1000)
    issuer = trusting()[URL].issuer
    unknown = ONE.mint(claims_of(), {"kid": "new"})
    for keys, asked_ms, for_now in (
        ((ONE.jwk(),), 0, True),
        ((ONE.jwk(),), now_ms - 31_000, True),
        ((ONE.jwk(),), now_ms - 29_000, False),
        ((), now_ms, True),
    ):
        verifier = TokenVerifier([IssuerRecord(issuer=issuer, keys=keys, asked_ms=asked_ms)])
        refused = verifier.identity(unknown, now_ms)
        assert isinstance(refused, RefusedToken)
        assert verifier.is_for_now(refused, now_ms) is for_now
        forged = verifier.identity(b"x", now_ms)
        assert isinstance(forged, RefusedToken)
        assert not verifier.is_for_now(forged, now_ms)


def test_who_shows_a_token_has_its_grants_until_it_expires():
    """The leeway included: a request in it was accepted, so the next one is."""
    rule = ClaimRule(may=(Verb.PUBLISH,), subjects=("*:till",), namespaces=("shop",))
    issuer = trusting(grants=(rule,))[URL].issuer
    verifier = TokenVerifier([IssuerRecord(issuer=issuer, keys=(ONE.jwk(),))])
    found = verifier.identity(ONE.mint(claims_of()), int(NOW_S * 1000))
    assert found == issuer.identity(claims_of(), (int(NOW_S) + 3_630) * 1000)
    assert isinstance(found, Identity)
    assert found.may(Permission(Verb.PUBLISH, "shop"))


# -- form ---------------------------------------------------------------------------------------


def _respelt(token: bytes) -> bytes:
    """*token* whose signature sets bits beyond its last byte."""
    alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    return token[:-1] + alphabet[alphabet.index(token[-1]) + 1 :][:1]


SPELLINGS = {
    "dot after": lambda token: token + b".",
    "dot before": lambda token: b"." + token,
    "four parts": lambda token: token + b".AAAA",
    "padding": lambda token: token + b"=",
    "more padding": lambda token: token + b"==",
    "blank after": lambda token: token + b" ",
    "blank before": lambda token: b" " + token,
    "line end": lambda token: token + b"\n",
    "nul": lambda token: token + b"\x00",
    "two dots": lambda token: token.replace(b".", b"..", 1),
    "padded header": lambda token: token.replace(b".", b"=.", 1),
    "longer header": lambda token: token.replace(b".", b"A.", 1),
    "two parts": lambda token: token.rpartition(b".")[0],
    "empty signature": lambda token: token.rpartition(b".")[0] + b".",
    "short signature": lambda token: token.rpartition(b".")[0] + b".AAA",
    "other alphabet": lambda token: token.replace(b"_", b"/").replace(b"-", b"+") + b"/",
    "not ascii": lambda token: token.replace(b"e", "\u0435".encode(), 1),
    "json form": lambda _token: b'{"payload":"","signatures":[]}',
    "empty": lambda _token: b"",
    "a dot": lambda _token: b".",
    "dots": lambda _token: b"..",
    "bits beyond": _respelt,
}


@pytest.mark.parametrize("kind", SPELLINGS)
def test_refuses_other_spellings_of_a_token(kind):
    """One token has one spelling: no padding, whitespace, dots or bits beyond."""
    changed = SPELLINGS[kind](ONE.mint(claims_of()))
    assert outcome(changed) in ("malformed-token", "bad-signature")


def test_refuses_a_signature_spelt_with_bits_beyond_its_end():
    """Base64 of 64 bytes leaves four bits: sixteen spellings of one signature, one of them ours."""
    token = ONE.mint(claims_of())
    assert decode(_respelt(token).rpartition(b".")[2]) == decode(token.rpartition(b".")[2])
    assert outcome(_respelt(token)) == "malformed-token"


@pytest.mark.parametrize(
    "claims",
    [
        b'{"iss":"%s","iss":"https://evil.example"}' % URL.encode(),
        b'{"sub":"a","sub":"admin"}',
        b'{"a":{"b":1,"b":2}}',
        b"[" * 3_000,
        b'{"a":' * 500 + b"1" + b"}" * 500,
        b"[]",
        b"null",
        b'"text"',
        b"{",
        b"",
        b"\xff",
        b'{"sub":"\\ud800"}',
        b'\xef\xbb\xbf{"sub":"a"}',
        b'{"exp":NaN}',
        b'{"exp":1e999}',
    ],
)
def test_refuses_claims_that_two_readers_could_read_differently(claims):
    """Members that occur twice, deep nesting, no object, no UTF-8, no number."""
    assert outcome(ONE.mint(claims)) == "malformed-token"


def test_refuses_a_header_with_a_member_that_occurs_twice():
    """Else one reader could take the algorithm of the other member."""
    header = encode(b'{"alg":"none","kid":"one","alg":"ES256"}')
    signed = header + b"." + encode(json.dumps(claims_of()).encode())
    assert outcome(signed + b"." + encode(ONE.sign(signed))) == "malformed-token"


def test_refuses_a_token_beyond_the_size_before_it_is_read():
    """8 KiB; the largest token is accepted."""
    tokens = [ONE.mint(claims_of(padding="x" * length)) for length in range(5_800, 5_900)]
    assert len(tokens[0]) < TOKEN_BYTES_MAX < len(tokens[-1])
    expected = ["token-too-large" if len(t) > TOKEN_BYTES_MAX else "accepted" for t in tokens]
    assert [outcome(token) for token in tokens] == expected
    assert outcome(b"x" * 10_000_000) == "token-too-large"


def test_every_fault_is_told_in_a_sentence():
    """Senders read it; none quotes the token."""
    assert set(ABOUT) == set(TokenFault)
