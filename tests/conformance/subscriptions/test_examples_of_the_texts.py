"""Every example of the three revisions, read from their texts: taken, stored, and what it means.

The texts stand beside the repository and are read where they stand; ``test_three_revisions.py``
has examples of our own. What cannot be tried (``...`` for something left out, plain words) is
passed by under a rule, and counted, so that nothing is passed by unseen.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jsonschema
import pytest

REVISIONS = ("004", "003", "000")


class Example(NamedTuple):
    """An example of a text: what it shows, in which section."""

    section: str
    text: str

    @property
    def value(self) -> Any:
        """Its JSON value; the earlier texts leave a comma before the closing bracket."""
        return json.loads(re.sub(r",(\s*[}\]])", r"\1", self.text))

    @property
    def has_gaps(self) -> bool:
        """It leaves something out, or names what stands there."""
        return "..." in self.text or "<" in self.text


def blocks(text: str) -> Iterator[Example]:
    """The fenced blocks."""
    section = ""
    for part in re.finditer(r"^#+ ([^\n]+)$|^```\w*\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        if part[1]:
            section = part[1]
        else:
            yield Example(section, part[2])


def listed(text: str) -> Iterator[Example]:
    """The items of the lists called Examples; the section is the name of a member."""
    section = ""
    lines = iter(text.splitlines())
    for line in lines:
        if line.startswith("#"):
            section = line.lstrip("# ")
        elif line == "- Examples:":
            while (item := next(lines)).startswith("  - "):
                yield Example(section, item.removeprefix("  - "))


@pytest.fixture(params=REVISIONS)
def revision(request) -> str:
    """Each of them."""
    return request.param


@pytest.fixture
def text(revision, specifications) -> str:
    """The text of a revision."""
    return text_of(specifications, revision)


def text_of(folder: Path, revision: str) -> str:
    """The text of *revision*."""
    (path,) = folder.glob(f"{revision}_*.txt")
    return path.read_text("utf-8")


def newest(expression: dict[str, Any]) -> list[dict[str, Any]]:
    """What 004 would write for an expression of any revision (decision 1)."""
    if expression.get("dialect") == "basic":
        return [{"all": [{c["type"]: {c["property"]: c["value"]}} for c in expression["filters"]]}]
    return [expression]


def attributes(expression: dict[str, Any]) -> dict[str, str]:
    """Attributes for which the comparisons in *expression* hold; for sql those of its example."""
    ((name, value),) = expression.items()
    if name in ("exact", "prefix", "suffix"):
        return dict(value)
    if name == "sql":
        return {"source": "https://example.com/cloudevents/spec"}
    nested = [value] if name == "not" else value
    return {key: text for each in nested for key, text in attributes(each).items()}


def body_schema(sut) -> jsonschema.Draft202012Validator:
    """What the API description says of the body of Create."""
    document = sut.ask("GET", "/openapi.json").json()
    content = document["paths"]["/subscriptions"]["post"]["requestBody"]["content"]
    schema = content["application/json"]["schema"]
    return jsonschema.Draft202012Validator(schema | {"components": document["components"]})


COUNTS = {
    # fenced blocks: whole subscriptions, filters, blocks with gaps; listed: values, words
    "004": (1, 7, 3, 10, 3),
    "003": (1, 6, 3, 8, 4),
    "000": (0, 4, 0, 0, 0),
}


def test_every_example_is_tried_or_passed_by_under_the_rule(revision, text):
    """The number of each kind; another one means that the text or the rule is another."""
    fenced = list(blocks(text))
    whole = [each for each in fenced if not each.has_gaps]
    values = [each for each in listed(text) if is_value(each)]
    subscriptions = sum("sink" in each.value for each in whole)
    assert COUNTS[revision] == (
        subscriptions,
        len(whole) - subscriptions,
        len(fenced) - len(whole),
        len(values),
        len(list(listed(text))) - len(values),
    )


@pytest.mark.clause("subscriptions-api.revisions")
def test_every_whole_subscription_is_taken(sut, text):
    """As it stands, by POST and by PUT; nothing that it says is lost."""
    for example in blocks(text):
        if example.has_gaps or "sink" not in example.value:
            continue
        body = example.value
        body_schema(sut).validate(body)
        expected = {name: body[name] for name in ("config", "sink", "protocol")}
        expected["filters"] = body.get("filters") or newest(body["filter"])
        created = sut.ask("POST", "/subscriptions", body)
        put = sut.ask("PUT", f"/subscriptions/{body['id']}", body)
        for answer in (created, put):
            assert answer.status == 201, answer.body
            assert answer.json().items() >= expected.items()
            settings = answer.json()["protocolsettings"]
            assert settings.items() >= body["protocolsettings"].items()
        assert created.json()["id"] != body["id"] == put.json()["id"]


@pytest.mark.clause("subscriptions-api.revisions")
def test_every_filter_is_taken_and_means_what_it_says(sut, deliveries, revision, text):
    """Stored in the newest shape; events that fit are sent, others are not."""
    for example in blocks(text):
        if example.has_gaps or "sink" in example.value:
            continue
        filter_ = example.value
        members = {"filters": [filter_]} if revision == "004" else {"filter": filter_}
        body_schema(sut).validate(sut.proposal(**members))
        (expression,) = sut.create(**members).json()["filters"]
        assert [expression] == newest(filter_)
        fits, other = [attributes(expression)], [{}, {"subject": "other"}]
        if "not" in expression:
            fits, other = other, fits
        deliveries.check(members, sent=fits, withheld=other)


def is_value(example: Example) -> bool:
    """In backticks, or JSON. The others are words about values, and one of 003 is no JSON."""
    return example.text.startswith("`") or example.text.startswith("[")


def test_every_listed_value_is_taken(sut, text):
    """Where it belongs, each in a subscription of its own."""
    for name, shown in listed(text):
        if not is_value(Example(name, shown)):
            continue
        value = shown.strip("`")
        members: dict[str, Any] = {name: value}
        if name in ("config", "filters"):
            members = {name: json.loads(value)}
        elif name == "types":
            members = {name: [value]}
        elif name == "credentialType":
            plain = {"credentialType": value, "identifier": "account", "secret": "pass"}
            members = {"sinkCredential": plain}
        elif name == "id":
            answer = sut.put(value)
            assert (answer.status, answer.json()["id"]) == (201, value)
            continue
        body_schema(sut).validate(sut.proposal(**members))
        answer = sut.create(**members)
        assert answer.status == 201, answer.body
        if "sinkCredential" not in members:
            assert answer.json().items() >= members.items()


@pytest.mark.clause("subscriptions-api.http-binding")
@pytest.mark.parametrize("revision", ["004", "003"], indirect=True)
def test_every_request_of_the_http_binding_has_its_method(sut, text):
    """Their bodies have gaps; their methods, paths and members have none."""
    (binding,) = [each.text for each in blocks(text) if "POST /subscriptions" in each.text]
    requests = re.findall(r"^([A-Z]+) (/\S+)$", binding, re.MULTILINE)
    assert len(requests) == 4
    for method, path in requests:
        assert method in sut.ask("OPTIONS", path.replace("{id}", "x")).headers["allow"]
    members = set(re.findall(r'^  "(\w+)":', binding, re.MULTILINE))
    assert members == {"id", "config", "filter", "protocol", "protocolsettings", "sink"}
    whole = {"id": "x", "config": {}, "filter": {"exact": {"type": "a"}}, "protocolsettings": {}}
    assert sut.put("x", **whole).status == 201
