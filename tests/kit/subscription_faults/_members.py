"""Faults of a proposal's members, of ``config``, of HTTP's settings and of ``delivery``."""

import math
from typing import Any, Final

from kit.subscription_faults._brokers import CERTIFICATE
from kit.subscription_faults._case import (
    DELIVERY,
    SETTINGS,
    Mark,
    Rows,
    Says,
    case,
    http,
    of_http,
)

BEYOND, PYTHON = Mark.BEYOND, Mark.PYTHON

EXACT: Final = {"exact": {"type": "a"}}


def settings(**members: Any) -> dict[str, Any]:
    """Members of a proposal with these protocol settings."""
    return {"protocolsettings": members}


def delivery(**members: Any) -> dict[str, Any]:
    """Members of a proposal with this delivery."""
    return {"protocolsettings": {"delivery": members}}


_NO_OBJECTS: Final[tuple[Any, ...]] = (None, [], "x", 1, True)

MEMBERS: Final = (
    of_http(
        {
            "misspelt": ({"filtres": []}, ("$.filtres", "unknown"), Says("did you mean filters")),
            "needs quotes": ({"a b": 1}, ('$["a b"]', "unknown")),
            "filters in capitals": ({"Filters": [EXACT]}, ("$.Filters", "unknown")),
            "filter with a space": ({"filter ": [EXACT]}, ('$["filter "]', "unknown")),
            "condition": ({"condition": [EXACT]}, ("$.condition", "unknown")),
            "mass assignment": (
                {"uid": "1", "revision": 9},
                ("$.uid", "unknown"),
                ("$.revision", "unknown"),
            ),
            "more than an answer names": (
                {f"member{n}": 1 for n in range(10_000)},
                *((f"$.member{n}", "unknown") for n in range(100)),
                ("$", "too-many"),
            ),
            "sink missing": ({"sink": ...}, ("$.sink", "missing")),
            "sink not text": ({"sink": 1}, ("$.sink", "type")),
            "sink null": ({"sink": None}, ("$.sink", "type")),
            "sink empty": ({"sink": ""}, ("$.sink", "empty")),
            "sink too long": ({"sink": "http://e.com/" + "a" * 4096}, ("$.sink", "too-long")),
            "protocol missing": ({"protocol": ...}, ("$.protocol", "missing")),
            "protocol not text": ({"protocol": ["HTTP"]}, ("$.protocol", "type")),
            "protocol in lower case": ({"protocol": "http"}, ("$.protocol", "unknown")),
            "protocol unknown": ({"protocol": "SMTP"}, ("$.protocol", "unknown")),
            "source not text": ({"source": 1}, ("$.source", "type")),
            "source null": ({"source": None}, ("$.source", "type")),
            "source empty": ({"source": ""}, ("$.source", "empty")),
            "source with a space": ({"source": "a b"}, ("$.source", "uri")),
            "source with a bad percent": ({"source": "a%2"}, ("$.source", "uri")),
            # Events of timers have this source, and theirs is a URI reference in ASCII.
            "source of timer events beyond ASCII": (
                {"source": "/sensors/é", "config": {"interval": 5}},
                ("$.source", "uri"),
                BEYOND,
            ),
            "source with a surrogate": (
                {"source": "/\udfff"},
                ("$.source", "text"),
                BEYOND,
                PYTHON,
            ),
            "types not a list": ({"types": "a"}, ("$.types", "type")),
            "types empty": ({"types": []}, ("$.types", "empty")),
            "a type empty": ({"types": ["a", ""]}, ("$.types[1]", "empty")),
            "a type not text": ({"types": [1]}, ("$.types[0]", "type")),
            "a type too long": ({"types": ["a" * 1025]}, ("$.types[0]", "too-long")),
            "types too many": ({"types": ["a"] * 1001}, ("$.types", "too-many")),
            "a type with a surrogate": (
                {"types": ["\ud800"]},
                ("$.types[0]", "text"),
                BEYOND,
                PYTHON,
            ),
            "credential": ({"sinkCredential": []}, ("$.sinkCredential", "type")),
            "credential, later spelling": ({"sinkcredential": []}, ("$.sinkcredential", "type")),
            "filters not a list": ({"filters": {}}, ("$.filters", "type")),
            "every fault at once": (
                {
                    "sink": "ftp://e.com",
                    "types": [],
                    "filtres": 1,
                    "filters": [{"exact": {"type": ""}}, {"nope": {}}],
                    "protocolsettings": {"method": "get", "delivery": {"retry": -1}},
                },
                ("$.filtres", "unknown"),
                ("$.types", "empty"),
                ("$.filters[0].exact.type", "empty"),
                ("$.filters[1].nope", "unknown-dialect"),
                ("$.sink", "uri"),
                (f"{SETTINGS}.method", "value"),
                (f"{DELIVERY}.retry", "value"),
            ),
        }
    )
    + [case(f"no object: {body!r}", body, [("$", "type")]) for body in _NO_OBJECTS]
    + [case("nothing", {}, [("$.protocol", "missing"), ("$.sink", "missing")])]
)

CONFIG_ROWS: Rows = {
    "misspelt": ({"intervall": 5}, (".intervall", "unknown")),
    "misspelt in capitals": (
        {"maxEvents": 1},
        (".maxEvents", "unknown"),
        Says("did you mean maxevents"),
    ),
    "key of a draft": ({"period": 5}, (".period", "unknown")),
    "unknown": ({"x": 5}, (".x", "unknown")),
    "key empty": ({"": 5}, ('[""]', "unknown")),
    "not an object": ([], ("", "type")),
    "interval null": ({"interval": None}, (".interval", "type")),
    "interval text": ({"interval": "5"}, (".interval", "type")),
    "interval boolean": ({"interval": True}, (".interval", "type")),
    "interval 0": ({"interval": 0}, (".interval", "value")),
    "interval short": ({"interval": 0.999}, (".interval", "value")),
    "interval long": ({"interval": 31_536_001}, (".interval", "value")),
    "interval huge": ({"interval": 10**400}, (".interval", "value"), PYTHON),
    "interval NaN": ({"interval": math.nan}, (".interval", "value"), BEYOND, PYTHON),
    "interval infinite": ({"interval": math.inf}, (".interval", "value"), PYTHON),
    "data alone": ({"data": 1}, (".data", "not-applicable")),
    "type alone": ({"type": "x"}, (".type", "not-applicable")),
    "type empty": ({"interval": 1, "type": ""}, (".type", "empty")),
    "type number": ({"interval": 1, "type": 1}, (".type", "type")),
    "type long": ({"interval": 1, "type": "x" * 1025}, (".type", "too-long")),
    "type of no event": ({"interval": 1, "type": "a\nb"}, (".type", "character"), BEYOND),
    "type with a surrogate": (
        {"interval": 1, "type": "\ud800"},
        (".type", "text"),
        BEYOND,
        PYTHON,
    ),
    "start null": ({"start": None}, (".start", "type")),
    "start word": ({"start": "first"}, (".start", "time")),
    "start array": ({"start": ["latest"]}, (".start", "type")),
    "start without offset": ({"start": "2020-01-01T00:00:00"}, (".start", "time")),
    "start on no day": ({"start": "2126-02-30T00:00:00Z"}, (".start", "time"), BEYOND),
    "expires word": ({"expires": "earliest"}, (".expires", "time")),
    "expires number": ({"expires": 4_102_444_800}, (".expires", "type")),
    "expires past": ({"expires": "2020-01-01T00:00:00Z"}, (".expires", "value"), BEYOND),
    "expires on no day": ({"expires": "2126-02-30T00:00:00Z"}, (".expires", "time"), BEYOND),
    "maxevents 0": ({"maxevents": 0}, (".maxevents", "value")),
    "maxevents large": ({"maxevents": 10**9 + 1}, (".maxevents", "value")),
    "maxevents boolean": ({"maxevents": True}, (".maxevents", "type")),
    "maxevents fraction": ({"maxevents": 1.5}, (".maxevents", "type")),
    "maxevents whole with a fraction": ({"maxevents": 1.0}, (".maxevents", "type"), BEYOND),
    "every fault at once": (
        {"intervall": 1, "data": 1, "start": 5, "expires": "x", "maxevents": -1},
        (".intervall", "unknown"),
        (".data", "not-applicable"),
        (".start", "type"),
        (".expires", "time"),
        (".maxevents", "value"),
    ),
}

CONFIG: Final = [
    case(name, http(config=row[0]), row[1:], "$.config") for name, row in CONFIG_ROWS.items()
] + of_http(
    {
        "a type that no timer can give an event": (
            {"types": ["a\u0007"], "config": {"interval": 1}},
            ("$.types[0]", "character"),
            BEYOND,
        ),
        "a source that no timer can give an event": (
            {"source": "/x\ufdd0", "config": {"interval": 1}},
            ("$.source", "character"),
            BEYOND,
        ),
        "data with a surrogate": (
            {"config": {"interval": 1, "data": "\ud800"}},
            ("$", "text"),
            BEYOND,
            PYTHON,
        ),
        "faults here and elsewhere": (
            {"sink": 5, "config": {"maxevents": -1}},
            ("$.config.maxevents", "value"),
            ("$.sink", "type"),
        ),
    }
)

_HEADERS = f"{SETTINGS}.headers"

_SIGNATURE: Final = f"{SETTINGS}.signature"
_CLIENT: Final = f"{SETTINGS}.clientcertificate"
_NO_KEY: Final = "-----BEGIN PRIVATE KEY-----\ncanary\n-----END PRIVATE KEY-----\n"

HTTP_SETTINGS: Final = of_http(
    {
        "not an object": ({"protocolsettings": []}, (SETTINGS, "type")),
        "unknown": (settings(retries=1), (f"{SETTINGS}.retries", "unknown")),
        "of another protocol": (settings(qos=1), (f"{SETTINGS}.qos", "not-applicable")),
        "method not text": (settings(method=1), (f"{SETTINGS}.method", "type")),
        "method in lower case": (settings(method="post"), (f"{SETTINGS}.method", "value")),
        "method without a body": (settings(method="GET"), (f"{SETTINGS}.method", "value")),
        "format not text": (settings(format=1), (f"{SETTINGS}.format", "type")),
        "format unknown": (settings(format="avro"), (f"{SETTINGS}.format", "value")),
        "two formats": (
            settings(format="binary", delivery={"format": "json"}),
            (f"{DELIVERY}.format", "conflict"),
            BEYOND,
        ),
        "headers not an object": (settings(headers=[]), (_HEADERS, "type")),
        "header value not text": (settings(headers={"A": 1}), (f"{_HEADERS}.A", "type")),
        "header name no token": (settings(headers={"A B": "1"}), (f'{_HEADERS}["A B"]', "value")),
        "header name empty": (settings(headers={"": "1"}), (f'{_HEADERS}[""]', "value")),
        "header with CR LF": (settings(headers={"A": "1\r\nB: 2"}), (f"{_HEADERS}.A", "value")),
        "header with LF at the end": (settings(headers={"A": "1\n"}), (f"{_HEADERS}.A", "value")),
        "header with NUL": (settings(headers={"A": "\0"}), (f"{_HEADERS}.A", "value")),
        "header beyond ASCII": (settings(headers={"A": "ü"}), (f"{_HEADERS}.A", "value")),
        "header with a secret": (
            settings(headers={"Authorization": "canary\r\n"}),
            (f"{_HEADERS}.Authorization", "value"),
        ),
        "signature not an object": (settings(signature="v1"), (_SIGNATURE, "type")),
        "signature without a scheme": (
            settings(signature={}),
            (f"{_SIGNATURE}.scheme", "missing"),
        ),
        "signature of an unknown scheme": (
            settings(signature={"scheme": "v2"}),
            (f"{_SIGNATURE}.scheme", "value"),
        ),
        "signature with a secret": (
            settings(signature={"scheme": "v1", "secret": "whsec_canary"}),
            (f"{_SIGNATURE}.secret", "unknown"),
        ),
        "signature of a dead letter sink": (
            settings(
                delivery={
                    "deadLetterSink": {
                        "sink": "https://e.com/",
                        "protocolsettings": {"signature": {"scheme": "v1"}},
                    }
                }
            ),
            (f"{DELIVERY}.deadLetterSink.protocolsettings.signature", "not-applicable"),
        ),
        "header of the signature": (
            settings(signature={"scheme": "v1"}, headers={"Webhook-Id": "1"}),
            (f'{_HEADERS}["Webhook-Id"]', "reserved"),
        ),
        "client certificate not an object": (
            settings(clientcertificate="x"),
            (_CLIENT, "type"),
        ),
        "client certificate without a key": (
            settings(clientcertificate={"certificate": CERTIFICATE}),
            (f"{_CLIENT}.key", "missing"),
        ),
        "client certificate with a word for a key": (
            settings(clientcertificate={"certificate": CERTIFICATE, "key": "canary"}),
            (f"{_CLIENT}.key", "value"),
        ),
        "client certificate with a key that is none": (
            settings(clientcertificate={"certificate": CERTIFICATE, "key": _NO_KEY}),
            (f"{_CLIENT}.key", "value"),
            BEYOND,
        ),
        "client certificate with a password": (
            settings(clientcertificate={"certificate": CERTIFICATE, "key": _NO_KEY, "x": "canary"}),
            (f"{_CLIENT}.x", "unknown"),
            (f"{_CLIENT}.key", "value"),
        ),
        "header twice": (
            settings(headers={"A": "1", "a": "2"}),
            (f"{_HEADERS}.a", "duplicate"),
            BEYOND,
        ),
        "too many headers": (
            settings(headers={f"a{n}": "" for n in range(101)}),
            (_HEADERS, "too-many"),
        ),
        "headers too long": (settings(headers={"a": "x" * 8192}), (_HEADERS, "too-long"), BEYOND),
    }
    # A second framing header is how requests are smuggled; no subscriber forges what an event says.
    | {
        f"reserved header {name}": (settings(headers={name: "x"}), (path, "reserved"))
        for name, path in {
            "Host": f"{_HEADERS}.Host",
            "content-LENGTH": f'{_HEADERS}["content-LENGTH"]',
            "Transfer-Encoding": f'{_HEADERS}["Transfer-Encoding"]',
            "Connection": f"{_HEADERS}.Connection",
            "ce-id": f'{_HEADERS}["ce-id"]',
            "CE-Type": f'{_HEADERS}["CE-Type"]',
            "Content-Type": f'{_HEADERS}["Content-Type"]',
        }.items()
    }
)

_DEAD = f"{DELIVERY}.deadLetterSink"
_GOOD_DEAD: Final = {"sink": "http://e.com"}

_DEAD_ROWS: Rows = {
    "a number": (1, ("", "type")),
    "null": (None, ("", "type")),
    "no URI": ("x", ("", "uri")),
    "a host too long": ("http://" + "a." * 127 + "com/", ("", "uri"), BEYOND),
    "blocked": ("http://127.0.0.1/", ("", "blocked-address"), BEYOND, Mark.PUBLIC),
    "without sink": ({}, (".sink", "missing")),
    "unknown member": (_GOOD_DEAD | {"x": 1}, (".x", "unknown")),
    "protocol unknown": (_GOOD_DEAD | {"protocol": "kafka"}, (".protocol", "unknown")),
    "a sink of another protocol": ({"sink": "kafka://e.com/t"}, (".sink", "uri")),
    "credential": (_GOOD_DEAD | {"sinkCredential": {}}, (".sinkCredential", "unsupported")),
    "of a dead letter": (
        _GOOD_DEAD | {"protocolsettings": {"delivery": {"deadLetterSink": "http://e.com"}}},
        (".protocolsettings.delivery.deadLetterSink", "nested"),
    ),
}

DELIVERIES: Final = of_http(
    {
        "not an object": (settings(delivery=1), (DELIVERY, "type")),
        "unknown": (delivery(retires=1), (f"{DELIVERY}.retires", "unknown")),
        "retry not whole": (delivery(retry=1.5), (f"{DELIVERY}.retry", "type")),
        "retry whole with a fraction": (
            delivery(retry=3.0),
            (f"{DELIVERY}.retry", "type"),
            BEYOND,
        ),
        "retry a boolean": (delivery(retry=True), (f"{DELIVERY}.retry", "type")),
        "retry negative": (delivery(retry=-1), (f"{DELIVERY}.retry", "value")),
        "retry too many": (delivery(retry=1001), (f"{DELIVERY}.retry", "value")),
        "policy unknown": (delivery(backoffPolicy="none"), (f"{DELIVERY}.backoffPolicy", "value")),
        "policy not text": (delivery(backoffPolicy=1), (f"{DELIVERY}.backoffPolicy", "type")),
        "delay no duration": (
            delivery(backoffDelay="soon"),
            (f"{DELIVERY}.backoffDelay", "duration"),
        ),
        "delay a number": (delivery(backoffDelay=True), (f"{DELIVERY}.backoffDelay", "type")),
        "delay too long": (
            delivery(backoffDelay="P8D"),
            (f"{DELIVERY}.backoffDelay", "value"),
            BEYOND,
        ),
        "delay of centuries": (
            delivery(backoffDelay="PT9999999999S"),
            (f"{DELIVERY}.backoffDelay", "duration"),
            BEYOND,
        ),
        "ceiling of centuries": (
            delivery(backoffMax="PT9999999999S"),
            (f"{DELIVERY}.backoffMax", "duration"),
            BEYOND,
        ),
        "ceiling below the delay": (
            delivery(backoffDelay="PT2S", backoffMax="PT1S"),
            (f"{DELIVERY}.backoffMax", "value"),
            BEYOND,
        ),
        "timeout zero": (delivery(timeout="PT0S"), (f"{DELIVERY}.timeout", "value"), BEYOND),
        "timeout too long": (delivery(timeout="PT11M"), (f"{DELIVERY}.timeout", "value"), BEYOND),
        "timeout of centuries": (
            delivery(timeout="PT9999999999S"),
            (f"{DELIVERY}.timeout", "duration"),
            BEYOND,
        ),
        "rate zero": (delivery(rateLimit=0), (f"{DELIVERY}.rateLimit", "value")),
        "rate a boolean": (delivery(rateLimit=True), (f"{DELIVERY}.rateLimit", "type")),
        "rate too high": (delivery(rateLimit=1e300), (f"{DELIVERY}.rateLimit", "value")),
    }
)

DEAD_LETTERS: Final = [
    case(name, http(**delivery(deadLetterSink=row[0])), row[1:], _DEAD)
    for name, row in _DEAD_ROWS.items()
]
