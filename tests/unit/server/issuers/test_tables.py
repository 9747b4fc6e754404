"""The tables ``[[issuers]]``: what they say, and every fault with its place."""

import tomllib

import pytest

from distributary.access.identity import Verb
from distributary.access.issuers import ClaimRule, Issuer
from distributary.server.issuers import IssuerSettings, read_issuers

WHOLE = """
[[issuers]]
name = "keycloak"
url = "https://login.example.com/realms/shop"
audiences = ["https://events.example.com", "events"]
jwks_uri = "https://keys.example.com/jwks?p=1"
algorithms = ["ES256", "EdDSA"]
leeway = "10s"
refresh = "5m"
networks = ["10.0.0.0/8"]

[[issuers.grants]]
sub = "system:serviceaccount:shop:*"
may = ["publish", "read"]
namespaces = ["shop"]
names = ["brokers/default"]

[[issuers.grants]]
claims.realm_access.roles = ["tenant", "boss"]
claims."example.com/verified" = true
may = ["write"]
namespaces_claim = ["example.com", "namespaces"]
"""


def read(text: str) -> tuple[tuple[IssuerSettings, ...], list[str]]:
    """What the tables of a file say."""
    return read_issuers(tomllib.loads(text)["issuers"])


def test_reads_everything_that_a_table_can_say():
    """Dotted keys are nested claims, as in the token."""
    found, faults = read(WHOLE)
    assert faults == []
    assert found == (
        IssuerSettings(
            Issuer(
                name="keycloak",
                url="https://login.example.com/realms/shop",
                audiences=("https://events.example.com", "events"),
                jwks_uri="https://keys.example.com/jwks?p=1",
                algorithms=("ES256", "EdDSA"),
                leeway_s=10.0,
                grants=(
                    ClaimRule(
                        may=(Verb.PUBLISH, Verb.READ),
                        subjects=("system:serviceaccount:shop:*",),
                        namespaces=("shop",),
                        names=("brokers/default",),
                    ),
                    ClaimRule(
                        may=(Verb.WRITE,),
                        claims={
                            "realm_access": {"roles": ["tenant", "boss"]},
                            "example.com/verified": True,
                        },
                        namespaces_claim=("example.com", "namespaces"),
                    ),
                ),
            ),
            refresh_s=300.0,
            networks=("10.0.0.0/8",),
        ),
    )


def test_the_least_table_trusts_and_grants_nothing():
    """RS256, as OpenID Connect asks of every issuer; keys by discovery, every ten minutes."""
    text = '[[issuers]]\nname = "a"\nurl = "https://a.example"\naudiences = "events"\n'
    (found,), faults = read(text)
    assert faults == []
    assert found.issuer == Issuer(name="a", url="https://a.example", audiences=("events",))
    assert (found.refresh_s, found.issuer.leeway_s) == (600.0, 30.0)


@pytest.mark.parametrize(
    ("line", "path"),
    [
        ('name = "A b"', "name"),
        ("name = 5", "name"),
        ('url = "http://login.example.com"', "url"),
        ('url = "https://login.example.com/?a=b"', "url"),
        ('url = "https://user@login.example.com"', "url"),
        ('url = "https://user:secret@login.example.com"', "url"),
        ('url = "https://login.example.com/#a"', "url"),
        ('url = "https://login.example.com:99999"', "url"),
        ('url = "https://[login"', "url"),
        ('url = "file:///etc/passwd"', "url"),
        ('url = "https://"', "url"),
        ("url = 5", "url"),
        ("audiences = []", "audiences"),
        ('audiences = [""]', "audiences"),
        ("audiences = 5", "audiences"),
        ('jwks_uri = "http://10.0.0.1/keys"', "jwks_uri"),
        ('algorithms = ["HS256"]', "algorithms"),
        ('algorithms = ["none"]', "algorithms"),
        ("algorithms = []", "algorithms"),
        ('algorithms = "RS256"', "algorithms"),
        ('leeway = "1h"', "leeway"),
        ("leeway = true", "leeway"),
        ('refresh = "1s"', "refresh"),
        ('refresh = "soon"', "refresh"),
        ('networks = ["10.0.0.1/8"]', "networks"),
        ('networks = "here"', "networks"),
        ('cacerts_file = "/no/such/file"', "cacerts_file"),
        ('cacerts_file = "/dev/null"', "cacerts_file"),
        ("cacerts_file = 5", "cacerts_file"),
        ('secret = "hunter2"', "secret"),
        ("grants = 5", "grants"),
    ],
)
def test_names_each_fault_of_an_issuer(line, path):
    """With its place and without its value."""
    usual = {"name": '"a"', "url": '"https://a.example"', "audiences": '"events"'}
    usual.pop(line.partition(" ")[0], None)
    rest = "\n".join(f"{key} = {value}" for key, value in usual.items())
    found, faults = read(f"[[issuers]]\n{rest}\n{line}\n")
    assert found == ()
    assert {fault.partition(" ")[0] for fault in faults} == {f"issuers[0].{path}"}
    assert "hunter2" not in str(faults)
    assert "user:secret" not in str(faults)


@pytest.mark.parametrize(
    ("lines", "path"),
    [
        ('sub = ""', "sub"),
        ("sub = []", "sub"),
        ("sub = 5", "sub"),
        ("", "sub"),
        ("claims = 5", "claims"),
        ('claims.role = ""', "claims"),
        ("claims.role = []", "claims"),
        ("claims.role = [[1]]", "claims"),
        ("claims.role = 2026-01-01", "claims"),
        ("claims.a.b.c.d.e.f.g.h.i = 1", "claims"),
        ('sub = "a"\nmay = ["fly"]', "may"),
        ('sub = "a"\nmay = []', "may"),
        ('sub = "a"\nnamespaces = []', "namespaces"),
        ('sub = "a"\nnamespaces = ["shop*"]', "namespaces"),
        ('sub = "a"\nnamespaces_claim = 5', "namespaces_claim"),
        ('sub = "a"\nnames = ["default"]', "names"),
        ('sub = "a"\nsubject = "b"', "subject"),
    ],
)
def test_names_each_fault_of_a_grant(lines, path):
    """A grant for every token must say so: ``sub = "*"``."""
    text = WHOLE.partition("[[issuers.grants]]")[0] + "[[issuers.grants]]\n" + lines + "\n"
    if "may" not in lines:
        text += 'may = ["publish"]\n'
    if "namespaces" not in lines:
        text += 'namespaces = ["shop"]\n'
    found, faults = read(text)
    assert found == ()
    assert {fault.partition(" ")[0] for fault in faults} == {f"issuers[0].grants[0].{path}"}


def test_reports_the_faults_of_all_tables():
    """At once, with what is missing and what is there twice."""
    found, faults = read("[[issuers]]\n[[issuers]]\n" + WHOLE + WHOLE)
    assert found == ()
    assert [fault.partition(" ")[0] for fault in faults] == [
        *(f"issuers[{i}].{name}" for i in (0, 1) for name in ("name", "audiences", "url")),
        "issuers[3].name",
        "issuers[3].url",
    ]


def test_the_number_of_issuers_is_bounded():
    """Each is asked for its keys."""
    assert len(read("[[issuers]]\n" * 17)[1]) == 1


def test_http_is_for_loopback_alone():
    """An issuer on this machine, for development and tests."""
    for url in ("http://127.0.0.1:8180/realms/a", "http://localhost:1", "http://[::1]:2/x"):
        text = f'[[issuers]]\nname = "a"\nurl = "{url}"\naudiences = "events"\n'
        assert read(text)[1] == []
