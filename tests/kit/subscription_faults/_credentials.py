"""Faults of sink credentials, and of what stands beside one."""

# ruff: noqa: S106 - secrets that are none
from typing import Any, Final

from distributary.resource import IDENTIFIER_BYTES_MAX, SECRET_BYTES_MAX, TOKEN_CHARS_MAX
from kit.subscription_faults._brokers import GOOD
from kit.subscription_faults._case import SETTINGS, Mark, Rows, case, changed, http, of_http

BEYOND, CREATE, PYTHON, REPLACE = Mark.BEYOND, Mark.CREATE, Mark.PYTHON, Mark.REPLACE

PLAIN: Final[dict[str, Any]] = {
    "credentialType": "PLAIN",
    "identifier": "me",
    "secret": "canary",
}
ACCESS: Final[dict[str, Any]] = {
    "credentialType": "ACCESSTOKEN",
    "accessToken": "canary",
    "accessTokenType": "Bearer",
    "accessTokenExpiresUtc": "2126-01-31T12:00:00+01:00",
}
REFRESH: Final[dict[str, Any]] = {
    **ACCESS,
    "credentialType": "REFRESHTOKEN",
    "refreshToken": "canary-too",
    "refreshTokenEndpoint": "https://example.com/token",
}

_PAST: Final = "2020-01-01T00:00:00Z"
_NO_DAY: Final = "2126-02-30T00:00:00Z"

_ROWS: Rows = {
    "no type": (changed(PLAIN, credentialType=...), ("credentialType", "missing")),
    "type in lower case": (changed(PLAIN, credentialType="plain"), ("credentialType", "unknown")),
    "type is no string": (changed(PLAIN, credentialType=1), ("credentialType", "type")),
    "no identifier": (changed(PLAIN, identifier=...), ("identifier", "missing")),
    "no identifier to the secret that is kept": (
        {"credentialType": "PLAIN"},
        ("identifier", "missing"),
        REPLACE,
    ),
    "no secret": (changed(PLAIN, secret=...), ("secret", "missing"), CREATE),
    "identifier with a colon": (changed(PLAIN, identifier="a:b"), ("identifier", "value"), BEYOND),
    "identifier with a line end": (changed(PLAIN, identifier="a\r\n"), ("identifier", "value")),
    "identifier with a surrogate": (
        changed(PLAIN, identifier="me\ud800"),
        ("identifier", "text"),
        BEYOND,
        PYTHON,
    ),
    "identifier is too long": (
        changed(PLAIN, identifier="é" * (IDENTIFIER_BYTES_MAX // 2 + 1)),
        ("identifier", "too-long"),
        BEYOND,
    ),
    "secret is empty": (changed(PLAIN, secret=""), ("secret", "empty")),
    "secret with NUL": (changed(PLAIN, secret="canary\0"), ("secret", "value")),
    "secret with a surrogate": (
        changed(PLAIN, secret="canary\ud800"),
        ("secret", "text"),
        BEYOND,
        PYTHON,
    ),
    "secret is too long": (
        changed(PLAIN, secret="x" * (SECRET_BYTES_MAX + 1)),
        ("secret", "too-long"),
    ),
    "secret is too long in bytes": (
        changed(PLAIN, secret="é" * (SECRET_BYTES_MAX // 2 + 1)),
        ("secret", "too-long"),
        BEYOND,
    ),
    "secret is a number": (changed(PLAIN, secret=1), ("secret", "type")),
    "token of another type": (changed(PLAIN, accessToken="x"), ("accessToken", "not-applicable")),
    "identifier of another type": (
        changed(ACCESS, identifier="me"),
        ("identifier", "not-applicable"),
    ),
    "refresh token of another type": (
        changed(ACCESS, refreshToken="x"),
        ("refreshToken", "not-applicable"),
    ),
    "no access token": (changed(ACCESS, accessToken=...), ("accessToken", "missing"), CREATE),
    "no token type": (changed(ACCESS, accessTokenType=...), ("accessTokenType", "missing")),
    "no expiry": (
        changed(ACCESS, accessTokenExpiresUtc=...),
        ("accessTokenExpiresUtc", "missing"),
    ),
    "token with a line end": (changed(ACCESS, accessToken="canary\n"), ("accessToken", "value")),
    "token with an accent": (changed(ACCESS, accessToken="canaré"), ("accessToken", "value")),
    "token is too long": (
        changed(ACCESS, accessToken="x" * (TOKEN_CHARS_MAX + 1)),
        ("accessToken", "too-long"),
    ),
    "token type of two words": (
        changed(ACCESS, accessTokenType="Bearer x"),
        ("accessTokenType", "value"),
    ),
    "expiry without an offset": (
        changed(ACCESS, accessTokenExpiresUtc="2030-01-01T00:00:00"),
        ("accessTokenExpiresUtc", "time"),
    ),
    "expiry is a number": (
        changed(ACCESS, accessTokenExpiresUtc=1),
        ("accessTokenExpiresUtc", "type"),
    ),
    "expiry on no day": (
        changed(ACCESS, accessTokenExpiresUtc=_NO_DAY),
        ("accessTokenExpiresUtc", "time"),
        BEYOND,
    ),
    "an expired token": (
        changed(ACCESS, accessTokenExpiresUtc=_PAST),
        ("accessTokenExpiresUtc", "value"),
        BEYOND,
    ),
    "an expired token that nobody renews": (
        changed(REFRESH, refreshTokenEndpoint=..., accessTokenExpiresUtc=_PAST),
        ("accessTokenExpiresUtc", "value"),
        BEYOND,
    ),
    "no refresh token": (changed(REFRESH, refreshToken=...), ("refreshToken", "missing")),
    "no access token to the refresh token": (
        changed(REFRESH, accessToken=...),
        ("accessToken", "missing"),
    ),
    "endpoint without TLS": (
        changed(REFRESH, refreshTokenEndpoint="http://example.com/"),
        ("refreshTokenEndpoint", "uri"),
        BEYOND,
    ),
    "endpoint that only looks local": (
        changed(REFRESH, refreshTokenEndpoint="http://localhost.example.com/"),
        ("refreshTokenEndpoint", "uri"),
        BEYOND,
    ),
    "endpoint with user information": (
        changed(REFRESH, refreshTokenEndpoint="https://u:canary@example.com/"),
        ("refreshTokenEndpoint", "uri"),
    ),
    "endpoint that is relative": (
        changed(REFRESH, refreshTokenEndpoint="/token"),
        ("refreshTokenEndpoint", "uri"),
    ),
    "endpoint that hands out credentials of the machine": (
        changed(REFRESH, refreshTokenEndpoint="https://169.254.169.254/"),
        ("refreshTokenEndpoint", "blocked-address"),
        BEYOND,
    ),
    "a named secret beside its own": (
        changed(PLAIN, secretRef={"name": "crm"}),
        ("secret", "not-applicable"),
    ),
    "a named secret without a name": (
        changed(PLAIN, secret=..., secretRef={}),
        ("secretRef.name", "missing"),
    ),
    "a named secret that is text": (
        changed(PLAIN, secret=..., secretRef="canary"),
        ("secretRef", "type"),
    ),
    "a name of a secret in upper case": (
        changed(PLAIN, secret=..., secretRef={"name": "Crm"}),
        ("secretRef.name", "value"),
    ),
    "a key of a named secret": (
        changed(PLAIN, secret=..., secretRef={"name": "crm", "key": "canary"}),
        ("secretRef.key", "unknown"),
    ),
    "an account of a named token": (
        {"credentialType": "ACCESSTOKEN", "accessTokenType": "Bearer", "identifier": "me"}
        | {"secretRef": {"name": "crm"}},
        ("identifier", "not-applicable"),
    ),
    "unknown member": (changed(PLAIN, secrett="canary"), ("secrett", "unknown")),
    "a member twice": (changed(ACCESS, accesstoken="canary"), ("accesstoken", "conflict")),
    "the type twice": (changed(PLAIN, credentialtype="PLAIN"), ("credentialtype", "conflict")),
}

_AT: Final = "$.sinkCredential."

_NO_SETTINGS: Final = ("$.protocolsettings", "type")

CREDENTIALS: Final = [
    *(case(name, http(sinkCredential=row[0]), row[1:], _AT) for name, row in _ROWS.items()),
    # NUL ends a part of SASL PLAIN, a line break a line of NATS.
    *(
        case(
            f"{protocol} with a secret of two {ends!a}",
            {
                "sink": sink,
                "protocol": protocol,
                "protocolsettings": settings,
                "sinkCredential": changed(PLAIN, secret=f"a{ends}b"),
            },
            [("secret", "value")],
            _AT,
        )
        for protocol, (sink, settings) in GOOD.items()
        for ends in ("\0", "\r\n")
    ),
]

BESIDE_CREDENTIALS: Final = of_http(
    {
        "to another machine without TLS": (
            {"sink": "http://example.com/", "sinkCredential": PLAIN},
            ("$.sink", "cleartext"),
            BEYOND,
        ),
        "a name that only looks local without TLS": (
            {"sink": "http://localhost.example.com/", "sinkCredential": PLAIN},
            ("$.sink", "cleartext"),
            BEYOND,
        ),
        "a custom Authorization without TLS": (
            {
                "sink": "http://example.com/",
                "protocolsettings": {"headers": {"authorization": "Bearer canary"}},
            },
            ("$.sink", "cleartext"),
            BEYOND,
        ),
        "a custom Authorization to a dead letter sink without TLS": (
            {
                "sink": "https://example.com/",
                "protocolsettings": {
                    "delivery": {
                        "deadLetterSink": {
                            "sink": "http://example.com/",
                            "protocolsettings": {"headers": {"Authorization": "Bearer canary"}},
                        }
                    }
                },
            },
            ("$.protocolsettings.delivery.deadLetterSink.sink", "cleartext"),
            BEYOND,
        ),
        "every fault at once": (
            {
                "types": [],
                "sinkcredential": {
                    "credentialtype": "REFRESHTOKEN",
                    "accesstokenexpiresutc": 5,
                    "identifier": "x",
                },
            },
            *(
                (f"$.sinkcredential.{name}", "missing")
                for name in ("accessToken", "accessTokenType", "refreshToken")
            ),
            ("$.sinkcredential.identifier", "not-applicable"),
            ("$.sinkcredential.accesstokenexpiresutc", "type"),
            ("$.types", "empty"),
            CREATE,
        ),
        "both names of the member": (
            {"sinkCredential": PLAIN, "sinkcredential": PLAIN},
            ("$.sinkcredential", "conflict"),
        ),
    }
    | {
        f"a header {name}": (
            {
                "sinkCredential": PLAIN,
                "protocolsettings": {"headers": {name: "Bearer x", "X-Other": "y"}},
            },
            (f"{SETTINGS}.headers.{name}", "conflict"),
            BEYOND,
        )
        for name in ("Authorization", "AUTHORIZATION")
    }
    | {
        f"no protocol and settings that are {value!r}": (
            {"sinkCredential": PLAIN, "protocol": ..., "protocolsettings": value},
            ("$.protocol", "missing"),
            *faults,
        )
        for value, faults in (
            ("x", [_NO_SETTINGS]),
            (None, [_NO_SETTINGS]),
            ([], [_NO_SETTINGS]),
            ({"headers": "x"}, []),
        )
    }
)
