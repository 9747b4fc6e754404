import pytest

from distributary.core.errors import EventError
from distributary.core.event import ATTRIBUTE_CHARS_MAX, ATTRIBUTES_MAX, FAULTS_MAX, validate
from distributary.core.event.validity import NAME_CHARS_MAX, refuse


def test_required_attributes_suffice(required):
    """The four required attributes make an event."""
    assert validate(required) == []


@pytest.mark.parametrize("name", ["specversion", "id", "source", "type"])
def test_each_required_attribute_is_missed(required, places, name):
    """Leaving one out is a fault with its path."""
    del required[name]

    assert places(validate(required)) == [(f"$.{name}", "missing")]


@pytest.mark.parametrize("name", ["specversion", "id", "source", "type", "subject", "time"])
def test_an_empty_core_attribute_is_a_fault(required, places, name):
    """Core attributes are non-empty where they stand."""
    assert places(validate(required | {name: ""})) == [(f"$.{name}", "empty")]


def test_every_fault_is_named_at_once(places):
    """Four faults in one event are four faults in the answer."""
    attributes = {"specversion": "2.0", "id": "", "source": "a b", "time": "now", "Bad": "x"}

    assert places(validate(attributes)) == [
        ("$.Bad", "name"),
        ("$.id", "empty"),
        ("$.source", "uri"),
        ("$.specversion", "version"),
        ("$.time", "time"),
        ("$.type", "missing"),
    ]


@pytest.mark.parametrize("version", ["1.0", "0.3"])
def test_known_versions_pass(required, version):
    """Versions 1.0 and 0.3 are known."""
    assert validate(required | {"specversion": version}) == []


@pytest.mark.parametrize("version", ["1", "1.1", "2.0", "0.2", " 1.0", "1.0 ", "1.0-rc1"])
def test_other_versions_are_refused(required, places, version):
    """An unknown version is never read as 1.0."""
    assert places(validate(required | {"specversion": version})) == [("$.specversion", "version")]


@pytest.mark.parametrize("name", ["a", "0", "a1b2", "x" * 21, "x" * NAME_CHARS_MAX])
def test_names_of_lower_case_letters_and_digits_pass(required, name):
    """Names beyond 20 characters are discouraged, not forbidden."""
    assert validate(required | {name: "v"}) == []


@pytest.mark.parametrize("name", ["", "A", "aB", "a_b", "a-b", "é", "a b", "²", "x" * 257, "a\n"])
def test_other_names_are_refused(required, name):
    """Names hold a-z and 0-9 only, and have a limit."""
    assert [fault.code for fault in validate(required | {name: "v"})] == ["name"]


def test_data_is_reserved(required, places):
    """No attribute may be called data."""
    assert places(validate(required | {"data": "v"})) == [("$.data", "reserved")]


@pytest.mark.parametrize("value", [True, False, 0, -(2**31), 2**31 - 1, "", "grüße 🌎", "a b"])
def test_extensions_may_be_strings_booleans_and_integers(required, value):
    """Every value of the type system passes as an extension."""
    assert validate(required | {"ext": value}) == []


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (2**31, "range"),
        (-(2**31) - 1, "range"),
        (10**30, "range"),
        (1.5, "type"),
        (None, "type"),
        ([], "type"),
        ({}, "type"),
        (b"x", "type"),
    ],
)
def test_other_extension_values_are_refused(required, places, value, code):
    """What the type system lacks is no attribute value."""
    assert places(validate(required | {"ext": value})) == [("$.ext", code)]


@pytest.mark.parametrize("name", ["id", "source", "type", "subject", "time", "datacontenttype"])
@pytest.mark.parametrize("value", [1, True])
def test_core_attributes_are_strings(required, places, name, value):
    """A number or a boolean is no id, source, type, subject, time or content type."""
    assert places(validate(required | {name: value})) == [(f"$.{name}", "type")]


@pytest.mark.parametrize(
    "character",
    [
        *"\x00\x1f\n\r\t\x7f\x80\x9f",
        chr(0xD800),
        chr(0xDFFF),
        *"\ufdd0\ufdef\ufffe\uffff\U0001fffe\U0010ffff",
    ],
)
def test_forbidden_characters_are_refused_in_any_string(required, places, character):
    """Control characters, surrogates and noncharacters stand in no value (Type System, String)."""
    attributes = required | {"subject": f"a{character}", "ext": f"{character}b"}

    assert places(validate(attributes)) == [("$.ext", "character"), ("$.subject", "character")]


@pytest.mark.parametrize("character", [" ", "~", "\u00a0", "\u200b", "\ue000", "\ufffd", "😀"])
def test_characters_beside_the_forbidden_ones_pass(required, character):
    """No more is refused than the specification refuses: private use and format characters pass."""
    assert validate(required | {"ext": character}) == []


@pytest.mark.parametrize(
    "source",
    [
        "https://github.com/cloudevents",
        "mailto:cncf-wg-serverless@lists.cncf.io",
        "urn:uuid:6e8bc430-9c3a-11d9-9669-0800200c9a66",
        "cloudevents/spec/pull/123",
        "/sensors/tn-1234567/alerts",
        "1-555-123-4567",
        "#fragment",
        "?q=%20",
        "http://[::1]:80/a?b#c",
        "http://[v1.fe80::a+en1]/",
        "http://user:word@host:/",
        "//host/a//b",
        "/gr%C3%B6%C3%9Fe",
        "a/b:c",
    ],
)
def test_uri_references_pass_as_source(required, source):
    """The examples of the specification, and each form of RFC 3986."""
    assert validate(required | {"source": source}) == []


@pytest.mark.parametrize(
    "source",
    [
        *("a b", " ", "a<b", 'a"b', "a\\b", "a|b", "%", "%2", "%zz", "a#b#c"),
        *("http://[::1", "http://::1]/", "http://[::1]x", "http://[1::2::3]/"),
        *("http://[::1%25eth0]/", "http://h:80a/", "https://github.com/\u00f6"),
        *("/a[0]", "?a[]=1", "1a:b", ":a", "a_b:c"),
    ],
)
def test_other_text_is_no_source(required, places, source):
    """What no rule of RFC 3986 makes: spaces, brackets outside a host, letters beyond ASCII."""
    assert places(validate(required | {"source": source})) == [("$.source", "uri")]


@pytest.mark.parametrize("schema", ["http://example.com/s.json", "urn:x:y", "a:b#c"])
def test_uris_pass_as_dataschema(required, schema):
    """A schema is named by a URI with a scheme."""
    assert validate(required | {"dataschema": schema}) == []


@pytest.mark.parametrize("schema", ["/relative", "no-scheme", "1a:b", "a b:c", "://x"])
def test_relative_references_are_no_dataschema(required, places, schema):
    """A schema without a scheme is refused."""
    assert places(validate(required | {"dataschema": schema})) == [("$.dataschema", "uri")]


@pytest.mark.parametrize(
    "time",
    [
        "2018-04-05T17:31:00Z",
        "2018-04-05t17:31:00z",
        "2018-04-05T17:31:00.123456789Z",
        "2018-04-05T17:31:00+14:00",
        "2018-04-05T17:31:00-00:00",
        "1990-12-31T23:59:60Z",
        "2024-02-29T00:00:00Z",
        "2000-02-29T00:00:00Z",
        "0000-01-01T00:00:00Z",
        "9999-12-31T23:59:59.999Z",
        "2106-02-07T06:28:16Z",
    ],
)
def test_rfc_3339_times_pass(required, time):
    """Leap seconds, nanoseconds, any offset, and years beyond 2038 are times."""
    assert validate(required | {"time": time}) == []


@pytest.mark.parametrize(
    "time",
    [
        "2018-04-05",
        "2018-04-05T17:31:00",
        "2018-04-05 17:31:00Z",
        "2018-13-05T17:31:00Z",
        "2018-04-31T17:31:00Z",
        "2023-02-29T00:00:00Z",
        "1900-02-29T00:00:00Z",
        "2018-04-05T24:00:00Z",
        "2018-04-05T17:60:00Z",
        "2018-04-05T17:31:61Z",
        "2018-04-05T17:31:00.Z",
        "2018-04-05T17:31:00+24:00",
        "18-04-05T17:31:00Z",
        "2018-04-05T17:31:00Z ",
        "٢٠١٨-04-05T17:31:00Z",
        "1522949460",
    ],
)
def test_other_times_are_refused(required, places, time):
    """What RFC 3339 does not spell, or no calendar holds, is no time."""
    assert places(validate(required | {"time": time})) == [("$.time", "time")]


@pytest.mark.parametrize(
    "media_type",
    [
        "application/json",
        "text/plain; charset=utf-8",
        "TEXT/Plain;CharSet=utf-8",
        'multipart/form-data; boundary="a b;c"',
        r'text/plain; title="a \"b\" [c] \\ ~"',
        "application/vnd.x+json;v=1;w=2",
        "text/plain;",
    ],
)
def test_media_types_pass_as_datacontenttype(required, media_type):
    """Media types of RFC 2046 with parameters pass, in any case."""
    assert validate(required | {"datacontenttype": media_type}) == []


@pytest.mark.parametrize(
    "media_type",
    [
        "json",
        "a/",
        "/b",
        "a/b/c",
        "a b/c",
        "text/plain; charset",
        'a/b; c="d',
        'a/b; c="é"',
        'a/b; c="\\é"',
        "a/é",
        "a/" + "b" * 1_023,
    ],
)
def test_other_text_is_no_datacontenttype(required, places, media_type):
    """A content type needs a type, a subtype and whole parameters, in ASCII."""
    faults = validate(required | {"datacontenttype": media_type})

    assert places(faults) == [("$.datacontenttype", "media-type")]


def test_attributes_of_0_3_are_checked_in_0_3_alone(required, places):
    """The attribute schemaurl is a URI-reference in 0.3 and an extension like any other in 1.0."""
    attributes = required | {"schemaurl": "a b", "datacontentencoding": "?"}

    assert validate(attributes) == []
    assert places(validate(attributes | {"specversion": "0.3"})) == [
        ("$.datacontentencoding", "encoding"),
        ("$.schemaurl", "uri"),
    ]


@pytest.mark.parametrize(("count", "codes"), [(-1, []), (0, []), (1, ["too-many"])])
def test_an_event_has_a_bounded_number_of_attributes(required, count, codes):
    """The limit itself passes, one more does not."""
    more = {f"x{i}": "v" for i in range(ATTRIBUTES_MAX + count - len(required))}

    assert [fault.code for fault in validate(required | more)] == codes


@pytest.mark.parametrize(("count", "codes"), [(-1, []), (0, []), (1, ["too-long"])])
def test_an_attribute_value_has_a_bounded_length(required, count, codes):
    """The limit itself passes, one more character does not."""
    value = "x" * (ATTRIBUTE_CHARS_MAX + count)

    assert [fault.code for fault in validate(required | {"subject": value})] == codes


def test_paths_follow_the_prefix(required, places):
    """Faults name JSON paths in a batch and header names in binary mode."""
    del required["id"]
    attributes = required | {"datacontenttype": "x"}

    assert places(validate(attributes, "$[3].")) == [
        ("$[3].datacontenttype", "media-type"),
        ("$[3].id", "missing"),
    ]
    assert places(validate(attributes, "ce-")) == [
        ("ce-id", "missing"),
        ("content-type", "media-type"),
    ]


def test_a_fault_repeats_little_of_what_the_sender_wrote(required):
    """A megabyte of control characters as a name makes a short printable path."""
    (fault,) = validate(required | {"\x1b[31m" * 200_000: "v"})

    assert len(fault.path) < 400
    assert fault.path.isprintable()


def test_reported_faults_are_bounded(required):
    """Beyond the limit the last fault says that there are more."""
    faults = validate(required | {f"X{i}": "v" for i in range(500)})

    with pytest.raises(EventError) as caught:
        refuse(faults)

    assert len(caught.value.faults) == FAULTS_MAX
    assert caught.value.faults[:-1] == tuple(faults[: FAULTS_MAX - 1])
    assert (caught.value.faults[-1].path, caught.value.faults[-1].code) == ("$", "too-many")
