import json

import pytest

from distributary.core.errors import EventError
from distributary.core.event import BATCH_EVENTS_MAX, Event, json_format
from distributary.protocols.http import binding as http
from distributary.protocols.kafka import binding as kafka
from distributary.protocols.mqtt import binding as mqtt
from distributary.protocols.nats import binding as nats

CORE = '"specversion":"1.0","id":"1","source":"/s","type":"t"'


def document(*members: str, core: str = CORE) -> bytes:
    """A structured event: the core attributes and *members*, as they are written."""
    return ("{" + ",".join([core, *members]) + "}").encode()


def faults_of(body: bytes, decode=json_format.decode) -> list[tuple[str, str]]:
    """What is wrong with *body*: (path, code), in the order reported."""
    with pytest.raises(EventError) as caught:
        decode(body)
    return [(fault.path, fault.code) for fault in caught.value.faults]


def test_attributes_keep_their_order_and_types():
    """Strings, booleans and integers arrive as such, in the order of the document."""
    event = json_format.decode(document('"b":true', '"i":-7', '"s":"x"'))

    assert list(event.attributes.items())[4:] == [("b", True), ("i", -7), ("s", "x")]


def test_an_event_without_data_has_none():
    """No data member: no data, and no content type is made up."""
    event = json_format.decode(document())

    assert event.data is None
    assert "datacontenttype" not in event.attributes


def test_null_attributes_are_unset():
    """Null equals absence (JSON Event Format, 2.2)."""
    event = json_format.decode(document('"subject":null', '"time":null', '"data_base64":null'))

    assert event == json_format.decode(document())


def test_a_required_attribute_of_null_is_missing():
    """Null equals absence for required attributes too."""
    core = CORE.replace('"1"', "null")

    assert faults_of(document(core=core)) == [("$.id", "missing")]


@pytest.mark.parametrize(
    "data",
    [
        "null",
        "true",
        "0",
        "-0.0",
        "1.5E+300",
        "1e400",
        "12345678901234567890123456789012345678901234567890",
        '"a\\u0041\\/\\ud83d\\ude00"',
        '{"b":1, "a" : [ ] ,"b":2}',
        '[1,\n\t{"x":"\\"}{"}]',
        '"grüße 🌎"',
    ],
)
def test_json_data_keep_every_byte(data):
    """Number spelling, key order, duplicate keys in data, spaces and escapes survive both ways."""
    event = json_format.decode(document('"datacontenttype":"application/json"', f'"data": {data} '))

    assert event.data == data.encode()
    assert f'"data":{data}'.encode() in json_format.encode(event)


def test_data_without_content_type_are_json():
    """An absent content type beside data is made explicit (JSON Event Format, 3.1.2)."""
    event = json_format.decode(document('"data":"I\'m just a string"'))

    assert event.attributes["datacontenttype"] == "application/json"
    assert event.data == b'"I\'m just a string"'


def test_base64_data_without_content_type_stay_without():
    """data_base64 says nothing about the format (JSON Event Format, 3.1.2)."""
    event = json_format.decode(document('"data_base64":"eyAieHl6IjogMTIzIH0="'))

    assert "datacontenttype" not in event.attributes
    assert event.data == b'{ "xyz": 123 }'


def test_text_data_are_the_bytes_of_the_string():
    """A string under a content type that is not JSON is its UTF-8 bytes, unescaped."""
    event = json_format.decode(
        document('"datacontenttype":"text/xml"', '"data":"<a b=\\"\\u00fc\\"/>"')
    )

    assert event.data == '<a b="ü"/>'.encode()


@pytest.mark.parametrize(
    "media_type", ["text/json", "APPLICATION/JSON", "a/b+json;v=1", "a/B+Json"]
)
def test_json_content_types_are_recognised_by_subtype(media_type):
    """*/json and */*+json in any case, parameters aside (JSON Event Format, 3.1.1)."""
    event = json_format.decode(document(f'"datacontenttype":"{media_type}"', '"data":"x"'))

    assert event.data == b'"x"'


@pytest.mark.parametrize(
    ("charset", "data"),
    [("iso-8859-1", b"gr\xfc\xdfe"), ("ISO-8859-15", b"gr\xfc\xdfe"), ("utf-16le", None)],
)
def test_text_is_written_in_its_declared_charset(charset, data):
    """The bytes of text agree with the charset that the content type declares, and come back."""
    body = document(f'"datacontenttype":"text/plain;charset={charset}"', '"data":"grüße"')
    event = json_format.decode(body)

    assert event.data == (data or "grüße".encode(charset))
    assert json_format.decode(json_format.encode(event)) == event


@pytest.mark.parametrize(
    ("members", "faults"),
    [
        (['"data":1', '"data_base64":""'], [("$.data_base64", "exclusive")]),
        (['"data":null', '"data_base64":""'], [("$.data_base64", "exclusive")]),
        (['"data_base64":"a"'], [("$.data_base64", "base64")]),
        (['"data_base64":"YQ"'], [("$.data_base64", "base64")]),
        (['"data_base64":"YQ==\\n"'], [("$.data_base64", "base64")]),
        (['"data_base64":"-_=="'], [("$.data_base64", "base64")]),
        (['"data_base64":"YQ==YQ=="'], [("$.data_base64", "base64")]),
        (['"data_base64":1'], [("$.data_base64", "type")]),
        (['"datacontenttype":"text/plain"', '"data":{}'], [("$.data", "type")]),
        (['"datacontenttype":"text/plain"', '"data":1'], [("$.data", "type")]),
        (['"datacontenttype":"text/plain;charset=koi8-r"', '"data":"x"'], [("$.data", "encoding")]),
        (['"datacontenttype":"text/plain;charset=latin1"', '"data":"x"'], [("$.data", "encoding")]),
        (['"datacontenttype":"t/a;charset=iso-8859-1"', '"data":"€"'], [("$.data", "encoding")]),
    ],
)
def test_data_that_cannot_be_read_are_a_fault(members, faults):
    """Data that the format cannot say are refused with the member's path."""
    assert faults_of(document(*members)) == faults


def test_null_is_no_data_under_a_content_type_that_is_not_json():
    """Senders write null for unset; only JSON has a null to say."""
    event = json_format.decode(document('"datacontenttype":"text/plain"', '"data":null'))

    assert event.data is None


@pytest.mark.parametrize(
    ("member", "code"),
    [
        ('"x":1.0', "type"),
        ('"x":1e2', "type"),
        ('"x":1e400', "type"),
        ('"x":{}', "type"),
        ('"x":[]', "type"),
        ('"x":2147483648', "range"),
        ('"x":99999999999999999999999999999999999999999999999999999', "range"),
        (f'"x":{"9" * 5000}', "type"),
        ('"x":"\\u0000"', "character"),
    ],
)
def test_values_that_are_no_attributes_are_refused_with_their_path(member, code):
    """Floats, objects, arrays, long integers and bad characters are faults at $.x."""
    body = document(member)

    assert faults_of(body) == [("$.x", code)]


@pytest.mark.parametrize("name", ["X", "a_b", "ID", "specVersion"])
def test_upper_case_names_are_refused(name):
    """JSON names are case-sensitive; nothing is lower-cased for the sender."""
    assert faults_of(document(f'"{name}":"1.0"')) == [(f"$.{name}", "name")]


def test_every_fault_of_an_event_is_named_at_once():
    """Attributes of the wrong type, bad values, missing ones and bad data in one answer."""
    body = b'{"specversion":"9","id":5,"source":{},"time":"x","data":1,"data_base64":""}'

    assert sorted(faults_of(body)) == [
        ("$.data_base64", "exclusive"),
        ("$.id", "type"),
        ("$.source", "type"),
        ("$.specversion", "version"),
        ("$.time", "time"),
        ("$.type", "missing"),
    ]


@pytest.mark.parametrize(
    "members",
    [
        ['"id":"1"'],
        ['"id":"2"'],
        ['"\\u0069d":"2"'],
        ['"x":1', '"x":1'],
        ['"x":"\\"a\\""', '"x":"\\"a\\""'],
        ['"data":{"id":"3"}', '"data":1'],
        ['"data":1', '"data":null'],
        ['"x":1', '"y":"\\\\"', '"x":null'],
    ],
)
@pytest.mark.parametrize("space", ["", " ", "\n  "])
def test_duplicate_members_are_refused(members, space):
    """Readers disagree about duplicates, so no event may have them, however they are spelt."""
    body = document(*members).replace(b",", b"," + space.encode())

    assert ("$", "duplicate") in faults_of(body)


@pytest.mark.parametrize(
    "members",
    [
        ['"data":{"id":"1","source":"\\"id\\":"}'],
        ['"x":"\\"id\\":\\"2\\""'],
        ['"subject":"id"', '"data":"\\\\"'],
        ['"data":{"a":1,"a":2}'],
    ],
)
def test_what_only_looks_like_a_duplicate_passes(members):
    """Names inside data and inside strings are no members of the event."""
    assert json_format.decode(document(*members)).attributes["id"] == "1"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b" ",
        b"{",
        b"{}x",
        b'{"id":}',
        b'{"data":NaN}',
        b'{"data":Infinity}',
        b'{"data":01}',
        b'{"data":"\\x"}',
        b'{"data":"a\nb"}',
        b"{'id':1}",
        b'\xef\xbb\xbf{"id":"1"}',
        '{"id":"1"}'.encode("utf-16"),
        '{"id":"1"}'.encode("utf-32"),
    ],
)
def test_what_is_not_json_in_utf_8_is_a_syntax_fault(body):
    """Broken JSON, a byte order mark and other encodings are refused as a whole."""
    assert faults_of(body) in ([("$", "syntax")], [("$", "encoding")])


@pytest.mark.parametrize(
    "octets", [b"\xff", b"\xc0\xa0", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe2\x82"]
)
@pytest.mark.parametrize("member", [b'"data":"%s"', b'"x":"%s"', b'"%s":1'])
def test_invalid_utf_8_is_refused_wherever_it_stands(octets, member):
    """Data are checked too, though they are never parsed: they go out again as JSON."""
    body = document().replace(b"}", b"," + member % octets + b"}")

    assert faults_of(body) == [("$", "encoding")]


@pytest.mark.parametrize("body", [b"[", b"[{]", b"[1}", b"[] x", b"\xff"])
def test_a_batch_that_is_not_json_is_a_syntax_fault(body):
    """A broken array is refused as a whole."""
    (fault,) = faults_of(body, json_format.decode_batch)
    assert fault in {("$", "syntax"), ("$", "encoding")}


def test_a_name_with_a_quote_is_a_bad_name_and_no_duplicate():
    """What confuses the search for duplicates is refused for what it is."""
    assert faults_of(document('"a\\"b":1')) == [('$.a"b', "name")]
    assert faults_of(document('"a\\"b":null', '"type":"u"')) == [('$.a"b', "name")]


def test_what_is_no_object_is_no_event():
    """Any other JSON value is refused by type."""
    for body in (b"[]", b'"x"', b"1", b"null", b"true"):
        assert faults_of(body) == [("$", "type")]


def test_many_members_are_one_fault():
    """A body of ten thousand members is refused by their number, not one by one."""
    body = document(*(f'"x{i}":{i}' for i in range(10_000)))

    assert faults_of(body) == [("$", "too-many")]


def test_the_empty_batch_holds_no_events():
    """An empty batch is valid (JSON Event Format, section 4)."""
    assert json_format.decode_batch(b" [ ] ") == []


def test_a_batch_keeps_the_order_of_its_events():
    """Events come out in the order of the array, each with its own data."""
    bodies = [document(f'"n":{i}', f'"data":[{i}]') for i in range(3)]

    events = json_format.decode_batch(b"[" + b", ".join(bodies) + b"]")

    assert events == [json_format.decode(body) for body in bodies]


def test_every_fault_of_every_event_of_a_batch_is_named():
    """Paths say which event; the batch is refused as a whole."""
    batch = b"[" + document() + b',{"specversion":"1.0","id":""},3]'

    assert sorted(faults_of(batch, json_format.decode_batch)) == [
        ("$[1].id", "empty"),
        ("$[1].source", "missing"),
        ("$[1].type", "missing"),
        ("$[2]", "type"),
    ]


@pytest.mark.parametrize(("count", "accepted"), [(-1, True), (0, True), (1, False)])
def test_a_batch_has_a_bounded_number_of_events(count, accepted):
    """The limit itself passes, one more does not."""
    batch = b"[" + b",".join([document()] * (BATCH_EVENTS_MAX + count)) + b"]"

    if accepted:
        assert len(json_format.decode_batch(batch)) == BATCH_EVENTS_MAX + count
    else:
        assert faults_of(batch, json_format.decode_batch) == [("$", "too-many")]


def test_faults_of_a_batch_are_bounded():
    """A batch of nothing but faults gets a hundred of them."""
    batch = b"[" + b",".join([b"{}"] * BATCH_EVENTS_MAX) + b"]"

    assert len(faults_of(batch, json_format.decode_batch)) == 100


def test_a_batch_of_mixed_versions_is_refused(make_event):
    """All events of a batch have one specversion (HTTP Protocol Binding, 3.3.2)."""
    old = document(core=CORE.replace("1.0", "0.3"))
    batch = b"[" + document() + b"," + old + b"]"

    assert faults_of(batch, json_format.decode_batch) == [("$[1].specversion", "version")]
    with pytest.raises(EventError):
        json_format.encode_batch([make_event(), make_event(specversion="0.3")])


def test_batches_survive_a_round_trip(make_event):
    """What encode_batch writes, decode_batch reads."""
    events = [
        make_event(b"[1]", datacontenttype="application/json"),
        make_event(b"\xff"),
        make_event(),
    ]

    assert json_format.decode_batch(json_format.encode_batch(events)) == events
    assert json_format.encode_batch([]) == b"[]"


@pytest.mark.parametrize(
    ("media_type", "data", "member"),
    [
        ("application/json", b'{"a":1}', b'"data":{"a":1}'),
        ("application/json", b"{", b'"data_base64":"ew=="'),
        ("application/json", b"", b'"data_base64":""'),
        ("application/json", b'"\xff"', b'"data_base64":"Iv8i"'),
        ("application/json", b'1,"id":"2"', b'"data_base64":"MSwiaWQiOiIyIg=="'),
        ("application/json", b"1}{", b'"data_base64":"MX17"'),
        ("text/plain", b'a"b\n', b'"data":"a\\"b\\n"'),
        ("text/plain", "grüße".encode(), '"data":"grüße"'.encode()),
        ("text/plain", b"\xff", b'"data_base64":"/w=="'),
        ("text/plain;charset=iso-8859-1", b"a", b'"data_base64":"YQ=="'),
        ("image/svg+xml", b"<a/>", b'"data":"<a/>"'),
        ("application/xml", b"<a/>", b'"data":"<a/>"'),
        ("application/octet-stream", b"abc", b'"data_base64":"YWJj"'),
        (None, b"{}", b'"data_base64":"e30="'),
    ],
)
def test_data_are_written_by_content_type_and_content(make_event, media_type, data, member):
    """JSON as it stands, text as a string, anything else and whatever is broken as Base64."""
    attributes = {} if media_type is None else {"datacontenttype": media_type}
    event = make_event(data, **attributes)

    encoded = json_format.encode(event)

    assert encoded.endswith(member + b"}")
    assert json_format.decode(encoded) == event
    json.loads(encoded)


def test_data_too_deep_for_a_reader_are_written_as_base64(make_event):
    """What we would refuse to read as JSON we do not write as JSON."""
    event = make_event(b"[" * 1_000 + b"]" * 1_000, datacontenttype="application/json")

    encoded = json_format.encode_batch([event])

    assert b'"data_base64"' in encoded
    assert json_format.decode_batch(encoded) == [event]


def test_the_deepest_embedded_data_can_be_read_in_a_batch(make_event):
    """The depth limit of writing leaves room for the event and the array around it."""
    event = make_event(b"[" * 62 + b"]" * 62, datacontenttype="application/json")

    encoded = json_format.encode_batch([event])

    assert b'"data":[' in encoded
    assert json_format.decode_batch(encoded) == [event]


@pytest.mark.parametrize("attributes", [{"x": "\ud800"}, {"x": object()}])
def test_an_event_that_no_decoder_made_is_refused(make_event, attributes):
    """Attributes outside the type system cannot be written, and the fault says where."""
    with pytest.raises(EventError) as caught:
        json_format.encode(make_event(None, **attributes))

    assert [fault.path for fault in caught.value.faults] == ["$.x"]


class TestVersion03:
    """0.3 passes through as 0.3, with its own way of writing binary data."""

    core = CORE.replace("1.0", "0.3")

    def test_base64_text_keeps_its_meaning(self):
        """With datacontentencoding base64 the data are that text, in and out."""
        body = document('"datacontentencoding":"base64"', '"data":"/w=="', core=self.core)

        event = json_format.decode(body)

        assert event.data == b"/w=="
        assert json_format.encode(event) == body

    def test_null_under_base64_is_no_data(self):
        """As under any content type that is not JSON."""
        body = document('"datacontentencoding":"base64"', '"data":null', core=self.core)
        assert json_format.decode(body).data is None

    @pytest.mark.parametrize("encode", [http.encode_binary, nats.encode_binary, mqtt.encode_binary])
    @pytest.mark.parametrize("type_", ["image/png", "application/json"])
    def test_binary_mode_carries_the_bytes(self, encode, type_):
        """The body is the data, and says nothing of Base64 (HTTP binding 0.3, 3.1.2)."""
        said = (f'"datacontenttype":"{type_}"', '"datacontentencoding":"base64"')
        event = json_format.decode(document(*said, '"data":"eyJhIjox\\r\\nfQ=="', core=self.core))

        head, body = encode(event)

        assert body == b'{"a":1}'
        assert b"encoding" not in head

    def test_a_record_of_kafka_carries_the_bytes(self):
        """It has no other way to say it."""
        event = json_format.decode(
            document('"datacontentencoding":"BASE64"', '"data":"/w=="', core=self.core)
        )

        headers, value = kafka.encode_binary(event)

        assert value == b"\xff"
        assert "ce_datacontentencoding" not in dict(headers)

    @pytest.mark.parametrize("text", ["!!", "/w=", "/w==x", "\u00fc"])
    def test_base64_that_is_none_is_refused(self, text):
        """As in 1.0."""
        body = document('"datacontentencoding":"base64"', f'"data":"{text}"', core=self.core)

        assert faults_of(body) == [("$.data", "base64")]

    def test_what_an_older_version_has_taken_goes_on_as_it_came(self):
        """Text that is no Base64 is in the log already, and is not lost."""
        attributes = {"specversion": "0.3", "datacontentencoding": "base64"}
        event = Event(attributes, b"!!")

        head, body = http.encode_binary(event)

        assert body == b"!!"
        assert b"ce-datacontentencoding: base64" in head

    def test_base64_text_is_a_string(self):
        """A number under datacontentencoding base64 is refused."""
        body = document('"datacontentencoding":"base64"', '"data":1', core=self.core)

        assert faults_of(body) == [("$.data", "type")]

    def test_data_base64_is_unknown(self):
        """The member came with 1.0."""
        body = document('"data_base64":"/w=="', core=self.core)

        assert faults_of(body) == [("$.data_base64", "name")]

    def test_binary_data_are_written_with_datacontentencoding(self):
        """Bytes that no string can hold become Base64 text with the attribute."""
        event = Event({"specversion": "0.3", "id": "1", "source": "/s", "type": "t"}, b"\xff")

        decoded = json.loads(json_format.encode(event))

        assert decoded["data"] == "/w=="
        assert decoded["datacontentencoding"] == "base64"
        assert "datacontentencoding" not in event.attributes
