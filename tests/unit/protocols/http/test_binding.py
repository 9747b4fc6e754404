import h11
import pytest

from distributary.core.errors import EventError
from distributary.core.event import Event, UnsupportedFormatError, json_format
from distributary.protocols.http import binding as http

STRUCTURED = b"application/cloudevents+json"
BATCHED = b"application/cloudevents-batch+json"


def faults_of(headers, body=b"") -> list[tuple[str, str]]:
    """What is wrong with a message: (path, code), sorted."""
    with pytest.raises(EventError) as caught:
        http.decode(headers, body)
    return sorted((fault.path, fault.code) for fault in caught.value.faults)


def fields_of(block: bytes) -> list[tuple[bytes, bytes]]:
    """A header block as another HTTP implementation reads it."""
    connection = h11.Connection(h11.SERVER)
    connection.receive_data(b"GET / HTTP/1.1\r\nhost: x\r\n" + block + b"\r\n")
    request = connection.next_event()
    assert isinstance(request, h11.Request)
    return [(name, value) for name, value in request.headers if name != b"host"]


class TestMode:
    """The content type chooses the mode."""

    @pytest.mark.parametrize(
        "content_type",
        [
            STRUCTURED,
            b"application/cloudevents+json; charset=utf-8",
            b'Application/CloudEvents+JSON;charset="UTF-8"',
            b" application/cloudevents+json ; x=y",
        ],
    )
    def test_structured(self, make_event, content_type):
        """The JSON media type in any case and with parameters is one event in the body."""
        event = make_event(b"1", datacontenttype="application/json")

        assert http.decode([(b"content-type", content_type)], json_format.encode(event)) == [event]

    def test_structured_ignores_attribute_headers(self, make_event):
        """Headers may repeat attributes; the body says everything (3.2.3)."""
        headers = [(b"ce-id", b"other"), (b"content-type", STRUCTURED), (b"ce-time", b"never")]

        assert http.decode(headers, json_format.encode(make_event())) == [make_event()]

    @pytest.mark.parametrize("count", [0, 1, 3])
    def test_batched(self, make_event, count):
        """The batch media type is any number of events, none included."""
        events = [make_event(number=i) for i in range(count)]

        assert http.decode([(b"content-type", BATCHED)], json_format.encode_batch(events)) == events

    @pytest.mark.parametrize(
        "content_type",
        [
            b"application/cloudevents",
            b"application/cloudevents+avro",
            b"application/cloudevents-batch+protobuf",
            b"application/cloudevents+json; charset=utf-16",
            b"application/cloudevents-batch+json; charset=iso-8859-1",
        ],
    )
    def test_unknown_formats_are_unsupported(self, make_headers, content_type):
        """Another format or charset is refused as such, even beside attribute headers."""
        with pytest.raises(UnsupportedFormatError) as caught:
            http.decode(make_headers((b"content-type", content_type)), b"{}")

        assert caught.value.code == "unsupported-media-type"

    @pytest.mark.parametrize(
        "headers", [[], [(b"content-type", b"application/json"), (b"x", b"y")]]
    )
    def test_a_message_that_says_nothing_of_cloudevents_is_unsupported(self, headers):
        """Neither content type nor attribute headers: not a CloudEvent at all."""
        with pytest.raises(UnsupportedFormatError):
            http.decode(headers, b"{}")

    @pytest.mark.parametrize("values", [(STRUCTURED, STRUCTURED), (STRUCTURED, b"text/plain")])
    def test_two_content_types_are_refused(self, make_headers, values):
        """Two content types could be two modes: nobody may choose between them."""
        headers = make_headers(*((b"content-type", value) for value in values))

        assert faults_of(headers) == [("content-type", "duplicate")]


class TestDecodeBinary:
    """Headers to attributes, body to data."""

    def test_attributes_come_from_headers_and_data_from_the_body(self, make_headers, make_event):
        """The content type becomes datacontenttype; other headers are not looked at."""
        headers = make_headers((b"content-type", b"text/xml"), (b"host", b"x"), subject=b"s")

        assert http.decode(headers, b"<a/>") == [
            make_event(b"<a/>", subject="s", datacontenttype="text/xml")
        ]

    def test_an_empty_body_is_no_data(self, make_headers, make_event):
        """HTTP cannot tell no body from an empty one; it is read as no data."""
        headers = make_headers((b"content-type", b"text/xml"))

        assert http.decode(headers, b"") == [make_event(None, datacontenttype="text/xml")]

    def test_data_without_content_type_stay_without(self, make_headers, make_event):
        """Nothing is assumed about bytes whose sender says nothing."""
        assert http.decode(make_headers(), b"{}") == [make_event(b"{}")]

    def test_the_content_type_is_not_percent_decoded(self, make_headers):
        """Content-Type is HTTP's own header and follows HTTP's own rules."""
        headers = make_headers((b"content-type", b'multipart/x; boundary="a%20b c"'))

        (event,) = http.decode(headers, b"x")

        assert event.attributes["datacontenttype"] == 'multipart/x; boundary="a%20b c"'

    @pytest.mark.parametrize(
        ("value", "expected"),
        [
            (b"plain", "plain"),
            (b"Euro%20%E2%82%AC%20%F0%9F%98%80", "Euro € 😀"),
            (b"%e2%82%ac", "€"),
            (b"%41%42", "AB"),
            (b"%2520", "%20"),
            (b"a b", "a b"),
            (b" \t padded \t ", "padded"),
            (b'"quoted text"', "quoted text"),
            (b'"a\\"b\\\\c"', 'a"b\\c'),
            (b'"%E2%82%AC"', "€"),
            (b'"\\%41"', "A"),
            (b'say "hi"', 'say "hi"'),
            (b'"open', '"open'),
            (b'"a" and "b"', '"a" and "b"'),
            (b'{"othervalue": 5}', '{"othervalue": 5}'),
            (b"100%", "100%"),
            (b"%zz%4", "%zz%4"),
            (b"gr\xc3\xbc\xc3\x9fe", "grüße"),
            (b"", ""),
        ],
    )
    def test_values_are_unquoted_then_percent_decoded_once(self, make_headers, value, expected):
        """HTTP Protocol Binding 3.1.3.2; what cannot be an escape stands for itself."""
        (event,) = http.decode(make_headers(ext=value), b"")

        assert event.attributes["ext"] == expected

    @pytest.mark.parametrize(
        "value",
        [
            b"%C0%A0",
            b"%ED%A0%80",
            b"%FF",
            b"%E2%82",
            b"%F4%90%80%80",
            b"\xff",
            b"\xc3",
            b'"%C0%A0"',
        ],
    )
    def test_bytes_that_are_not_utf_8_are_refused(self, make_headers, value):
        """Overlong forms, surrogates, truncated and impossible sequences, encoded or raw."""
        assert faults_of(make_headers(ext=value)) == [("ce-ext", "encoding")]

    @pytest.mark.parametrize(
        "value", [b"%0D%0A", b"%00", b"a%7Fb", b"%C2%80", b"%EF%BF%BF", b"a\x0bb"]
    )
    def test_encoded_control_characters_are_refused(self, make_headers, value):
        """Percent-encoding does not smuggle in what no attribute may hold."""
        assert faults_of(make_headers(ext=value)) == [("ce-ext", "character")]

    def test_an_undecodable_required_attribute_is_named_once(self, make_headers):
        """A value that cannot be read is not reported as missing as well."""
        assert faults_of(make_headers(id=b"%FF")) == [("ce-id", "encoding")]

    @pytest.mark.parametrize(
        ("name", "fault"),
        [
            (b"ce-data", ("ce-data", "reserved")),
            (b"ce-datacontenttype", ("ce-datacontenttype", "reserved")),
            (b"ce-", ("ce-", "name")),
            (b"ce-a-b", ("ce-a-b", "name")),
            (b"ce-a_b", ("ce-a_b", "name")),
            (b"ce-a\xff", ("ce-a\xff", "name")),
            (b"ce-a\nce-b", ("ce-a\\nce-b", "name")),
        ],
    )
    @pytest.mark.parametrize("value", [b"v", b"v%20w"])
    def test_headers_that_name_no_attribute_are_refused(self, make_headers, name, fault, value):
        """Reserved and impossible names are faults, whichever way the values are decoded."""
        assert faults_of(make_headers((name, value))) == [fault]

    def test_a_content_type_does_not_hide_its_forbidden_twin(self, make_headers):
        """ce-datacontenttype is refused beside a content type, too (3.1.1)."""
        headers = make_headers((b"ce-datacontenttype", b"text/a"), (b"content-type", b"text/b"))

        assert faults_of(headers, b"x") == [("ce-datacontenttype", "reserved")]

    @pytest.mark.parametrize("values", [(b"a", b"a"), (b"a", b"b"), (b"a%20", b"b")])
    def test_duplicates_of_one_attribute_are_refused(self, make_headers, values):
        """An attribute appears at most once, even with the same value."""
        headers = make_headers(*((b"ce-ext", value) for value in values))

        assert faults_of(headers) == [("ce-ext", "duplicate")]

    def test_every_fault_is_named_at_once(self, make_headers):
        """Header names are the places."""
        headers = make_headers(
            (b"content-type", b"nonsense"), id=b"", type=None, time=b"noon", ext=b"%FF"
        )

        assert faults_of(headers) == [
            ("ce-ext", "encoding"),
            ("ce-id", "empty"),
            ("ce-time", "time"),
            ("ce-type", "missing"),
            ("content-type", "media-type"),
        ]

    @pytest.mark.parametrize("value", [b"\xff/\xfe", b"text/\x00"])
    def test_a_content_type_beyond_ascii_is_refused(self, make_headers, value):
        """Whatever bytes stand there, the answer is a fault."""
        (fault,) = faults_of(make_headers((b"content-type", value)))

        assert fault[0] == "content-type"

    @pytest.mark.parametrize("value", [b"", b" "])
    def test_an_empty_content_type_is_none(self, make_headers, make_event, value):
        """An empty Content-Type says as much as none."""
        assert http.decode(make_headers((b"content-type", value)), b"x") == [make_event(b"x")]

    @pytest.mark.parametrize("version", [b"2.0", b"1.1", b""])
    def test_unknown_versions_are_refused(self, make_headers, version):
        """Never read as 1.0."""
        (fault,) = faults_of(make_headers(specversion=version))

        assert fault[0] == "ce-specversion"


class TestEncodeBinary:
    """Attributes to headers, data to the body."""

    def test_every_attribute_is_one_field(self, make_event):
        """Datacontenttype is Content-Type, everything else ce-; the body is the data."""
        block, body = http.encode_binary(
            make_event(b"<a/>", datacontenttype="text/xml; charset=utf-8", n=5, flag=True)
        )

        assert body == b"<a/>"
        assert fields_of(block) == [
            (b"ce-specversion", b"1.0"),
            (b"ce-id", b"A234-1234-1234"),
            (b"ce-source", b"/mycontext/subcontext"),
            (b"ce-type", b"com.example.someevent"),
            (b"content-type", b"text/xml; charset=utf-8"),
            (b"ce-n", b"5"),
            (b"ce-flag", b"true"),
        ]

    def test_no_data_is_no_body(self, make_event):
        """An event without data has an empty body and no content type."""
        block, body = http.encode_binary(make_event())

        assert body == b""
        assert b"content-type" not in block

    @pytest.mark.parametrize(
        ("value", "expected"),
        [
            ("Euro € 😀", b"Euro%20%E2%82%AC%20%F0%9F%98%80"),
            ('a"b', b"a%22b"),
            ("100%", b"100%25"),
            ("%20", b"%2520"),
            ("!#$&'()*+,-./:;<=>?@[\\]^_`{|}~", b"!#$&'()*+,-./:;<=>?@[\\]^_`{|}~"),
            ("\u00a0", b"%C2%A0"),
        ],
    )
    def test_values_are_percent_encoded_where_they_must_be(self, make_event, value, expected):
        """Space, quote, percent and everything beyond U+0021-U+007E, in upper case (3.1.3.2)."""
        block, _ = http.encode_binary(make_event(ext=value))

        assert dict(fields_of(block))[b"ce-ext"] == expected

    @pytest.mark.parametrize("name", ["ext", "id", "datacontenttype"])
    @pytest.mark.parametrize(
        "value", ["a\r\nx-evil: 1", "a\nb", "a\rb", "a\x00b", "\x85", "\u2028"]
    )
    def test_no_value_can_add_a_line(self, make_event, name, value):
        """Even a value that no decoder lets in stays within its field."""
        block, _ = http.encode_binary(make_event(**{name: value}))

        assert b"evil" not in dict(fields_of(block))
        assert (
            block.count(b"\r\n")
            == block.count(b"\r")
            == block.count(b"\n")
            == len(fields_of(block))
        )

    @pytest.mark.parametrize("name", ["a\r\nb", "a: b", "é", "", "a-b"])
    def test_no_name_can_add_a_line(self, make_event, name):
        """A name that is none is refused rather than written."""
        with pytest.raises(EventError):
            http.encode_binary(make_event(**{name: "v"}))

    def test_a_lone_surrogate_is_refused(self, make_event):
        """An event built by hand with what UTF-8 cannot say gets a fault with its place."""
        with pytest.raises(EventError) as caught:
            http.encode_binary(make_event(ext="\ud800"))

        assert caught.value.faults[0].path == "ce-ext"


def test_structured_and_batched_messages_come_back(make_event):
    """What is encoded in either mode is decoded to the same events."""
    event = make_event(b"\x00\xff", subject="ä b", n=-1)

    for block, body in (http.encode_structured(event), http.encode_batched([event])):
        assert block.count(b"\r\n") == 1
        assert http.decode(fields_of(block), body) == [event]


def test_a_batch_of_none_can_be_sent():
    """An empty batch is a message like any other."""
    block, body = http.encode_batched([])

    assert http.decode(fields_of(block), body) == []


def test_version_0_3_passes_through_binary_mode(make_headers):
    """With its attributes, and with the bytes that Base64 text stands for."""
    headers = make_headers(
        (b"content-type", b"image/png"),
        specversion=b"0.3",
        datacontentencoding=b"base64",
        schemaurl=b"/schema",
    )

    (event,) = http.decode(headers, b"/w==")
    block, body = http.encode_binary(event)

    assert isinstance(event, Event)
    left = [field for field in headers if field[0] != b"ce-datacontentencoding"]
    assert sorted(fields_of(block)) == sorted(left)
    assert body == b"\xff"


def test_a_body_that_is_not_the_base64_it_says_to_be_is_refused(make_headers):
    """Nobody could tell what it is."""
    headers = make_headers(specversion=b"0.3", datacontentencoding=b"base64")

    assert faults_of(headers, b"\xff\xd8") == [("ce-datacontentencoding", "base64")]


def test_a_header_that_is_not_utf_8_says_how_to_write_it(make_headers):
    """Many SDKs send Latin-1 there."""
    with pytest.raises(EventError) as caught:
        http.decode(make_headers(subject="gr\u00fc\u00dfe".encode("latin-1")), b"")

    (fault,) = caught.value.faults
    assert fault.path == "ce-subject"
    assert "percent-encode the UTF-8 of subject, as gr%C3%BC%C3%9Fe" in fault.message
