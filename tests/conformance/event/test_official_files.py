"""The files of the official conformance suite, run as they stand."""

import base64
import json
import re
from collections.abc import Iterator
from pathlib import Path

import jsonschema
import pytest
import yaml

from distributary.core.errors import EventError
from distributary.core.event import Event, json_format
from distributary.protocols.http import binding as http

YAML_FILES = [
    "yaml/v1.0/v1_minimum.yaml",
    "yaml/v1.yaml",
    "yaml/v0.3/v03_minimum.yaml",
    "yaml/v03.yaml",
]


def outlines(feature: str) -> Iterator[tuple[str, dict[str, str], object]]:
    """The scenario outlines of a feature file, filled in: (request, attributes, JSON data)."""
    for outline in feature.split("Scenario Outline:")[1:]:
        scenario, _, examples = outline.partition("Examples:")
        header, *rows = re.findall(r"\|\s*(.*?)\s*\|", examples)
        for value in rows:
            filled = scenario.replace(f"<{header}>", value)
            request, data = (
                _unindented(text) for text in re.findall(r'"""\n(.*?)\n *"""', filled, re.DOTALL)
            )
            rows_of_attributes = r"^ *\| +(?!key )(\w+) +\| (.*?) +\|$"
            table = re.findall(rows_of_attributes, filled, re.MULTILINE)
            yield request, dict(table), json.loads(data)


def _unindented(text: str) -> str:
    indent = len(text) - len(text.lstrip(" "))
    return "\n".join(line[indent:] for line in text.split("\n"))


def parse(request: str) -> tuple[list[tuple[bytes, bytes]], bytes]:
    """Header fields (names in lower case) and body of a request as the feature writes it."""
    head, _, body = request.partition("\n\n")
    fields = (line.split(": ", 1) for line in head.split("\n")[1:])
    return [(name.lower().encode(), value.encode()) for name, value in fields], body.encode()


def test_http_protocol_binding_feature(corpus: Path):
    """Every example of every scenario of http-protocol-binding.feature."""
    cases = list(outlines((corpus / "http-protocol-binding.feature").read_text("utf-8")))

    assert len(cases) == 4
    for request, attributes, data in cases:
        (event,) = http.decode(*parse(request))
        assert event.attributes == attributes
        assert json.loads(event.data) == data


def events(path: Path) -> Iterator[Event]:
    """The events of a YAML file; every value is text there, and a block ends with a newline."""
    for document in yaml.load_all(path.read_text("utf-8"), Loader=yaml.BaseLoader):
        attributes = document["ContextAttributes"]
        extensions = attributes.pop("Extensions", {})
        # A newline may not stand in an attribute: the one here belongs to YAML's block.
        attributes |= {name: value.strip() for name, value in extensions.items()}
        yield Event(attributes, document["Data"].encode())


def fields_of(block: bytes) -> list[tuple[bytes, bytes]]:
    """The fields of a header block."""
    return [tuple(line.split(b": ", 1)) for line in block.split(b"\r\n")[:-1]]


@pytest.mark.parametrize("name", YAML_FILES)
def test_yaml_events_pass_through_every_mode(corpus: Path, name):
    """Each event of the file survives binary, structured and batched mode, data unchanged."""
    listed = list(events(corpus / name))

    assert listed
    for event in listed:
        assert http.decode(fields_of(http.encode_binary(event)[0]), event.data) == [event]
        for block, body in (http.encode_structured(event), http.encode_batched([event])):
            (received,) = http.decode(fields_of(block), body)
            if received.attributes.get("datacontentencoding") == "base64":
                # 0.3 without a content type: bytes can only be said as Base64 text.
                assert event.attributes["specversion"] == "0.3"
                assert base64.b64decode(received.data) == event.data
                continue
            assert received.attributes == event.attributes
            # JSON data lose the newline after them; a JSON value has none.
            assert received.data in {event.data, event.data.strip()}


@pytest.fixture(scope="module")
def schema(corpus: Path) -> jsonschema.Draft7Validator:
    """The official JSON schema of a structured event, formats included."""
    text = (corpus / "cloudevents.schema.json").read_text("utf-8")
    return jsonschema.Draft7Validator(json.loads(text), format_checker=jsonschema.FormatChecker())


@pytest.mark.parametrize("name", YAML_FILES)
def test_what_is_written_fits_the_schema(corpus: Path, schema, name):
    """Structured events that go out are valid by the official schema."""
    for event in events(corpus / name):
        schema.validate(json.loads(json_format.encode(event)))


GOOD = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}
WRONG = [None, "", 1, 1.5, True, [], {}, "x"]
NAMES = [*GOOD, "datacontenttype", "dataschema", "subject", "time", "data", "data_base64"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("value", WRONG, ids=repr)
def test_what_the_schema_refuses_is_refused(schema, name, value):
    """No value of any member that the schema forbids gets in."""
    document = GOOD | {name: value}

    try:
        json_format.decode(json.dumps(document).encode())
    except EventError:
        return
    assert schema.is_valid(document)


@pytest.mark.parametrize("name", list(GOOD))
def test_what_the_schema_requires_is_required(schema, name):
    """Every required member is missed by the schema and by the decoder."""
    document = {key: value for key, value in GOOD.items() if key != name}

    assert not schema.is_valid(document)
    with pytest.raises(EventError):
        json_format.decode(json.dumps(document).encode())


def test_every_example_of_the_schema_is_accepted(schema):
    """The example values of the schema are valid values here."""
    properties = schema.schema["properties"]
    examples = [
        (name, example)
        for name, rule in properties.items()
        for example in rule.get("examples", [])
        if name not in {"data", "specversion"}
    ]

    assert len(examples) > 10
    for name, example in examples:
        json_format.decode(json.dumps(GOOD | {name: example}).encode())
