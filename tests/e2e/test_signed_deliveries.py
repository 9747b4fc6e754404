"""Signed deliveries on the wire, verified by the code of the guide in four languages."""

import asyncio
import base64
import dataclasses
import json
import random
import re

import pytest
import uvloop

from distributary.core.clock import SystemClock
from distributary.core.deliver import Destination
from distributary.core.deliver.origins import origin_of
from distributary.core.deliver.signing import SigningKey, SigningKeys
from distributary.core.event import Event
from distributary.protocols.http.sink._signature import RequestSigner
from distributary.subscriptions.resource import public_key
from kit.fake_sink import FakeSink
from kit.http_attempts import opened
from kit.webhook_receivers import GUIDE, LANGUAGES, Case, answers

COUNT = 1_000
"""Payloads of each kind."""

TAMPERED = 100

V1 = [SigningKey("v1", bytes([n]) * 32, 0) for n in (1, 2)]
V1A = [SigningKey("v1a", bytes([n]) * 32, 0) for n in (3, 4)]
OVERLAP_MS = 3_600_000

ALPHABET = 'abc {}[]",:\\\r\n\t\0\u00e4\u20ac\u4e2d\ufeff\U0001f600'


def secret(key):
    """As its owner knows it."""
    return "whsec_" + base64.b64encode(key.value).decode()


def texts(dice, count):
    """Random events with text or JSON, in either mode."""
    for n in range(count):
        text = "".join(dice.choices(ALPHABET, k=dice.randrange(300)))
        data = text.encode() if n % 2 else json.dumps({"n": n, "text": text}).encode()
        kind = "text/plain" if n % 2 else "application/json"
        yield event(n, kind, data), dice.choice(["binary", "structured"])


def blobs(dice, count):
    """Random events with any bytes, and some without data, in binary mode."""
    for n in range(count):
        data = dice.randbytes(dice.choice([0, 1, 100, 1_000, 20_000]))
        yield event(n, "application/octet-stream", data or None), "binary"


def event(n, kind, data):
    """An event with this data."""
    attributes = {"specversion": "1.0", "id": str(n), "source": "/s", "type": "t"}
    return Event(attributes | {"datacontenttype": kind}, data)


def delivered(events, *keys):
    """The requests in which a sink got *events*, signed with *keys*."""

    async def scenario():
        async with FakeSink() as sink, opened() as transport:
            signing = SigningKeys(origin_of(sink.uri()), keys)
            destinations = {
                format_: Destination(sink.uri(), format=format_, signing=signing)
                for format_ in ("binary", "structured")
            }
            for n, (each, format_) in enumerate(events):
                done = asyncio.get_running_loop().create_future()
                identity = f"{n:032x}.0.{n}.0.89abcdef.1"
                destination = destinations[format_]
                transport.send(each, destination, 5.0, done.set_result, identity)
                assert (await done).status == 204
            return sink.requests

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(scenario())


def case(do, key, request):
    """Ask whether *request* is ours."""
    names = ("webhook-id", "webhook-timestamp", "webhook-signature")
    return Case(do, key, *(request.header(name) for name in names), request.body)


@pytest.fixture(scope="module")
def overlapping():
    """Requests with texts, during a rotation of a secret."""
    until_ms = SystemClock().wall_ms() + OVERLAP_MS
    keys = V1[0], dataclasses.replace(V1[1], until_ms=until_ms)
    return delivered(texts(random.Random(1), COUNT), *keys)


@pytest.fixture(scope="module")
def by_private_key():
    """Requests with any bytes, during a rotation of a private key."""
    until_ms = SystemClock().wall_ms() + OVERLAP_MS
    keys = V1A[0], dataclasses.replace(V1A[1], until_ms=until_ms)
    return delivered(blobs(random.Random(2), COUNT), *keys)


@pytest.mark.parametrize("language", LANGUAGES)
def test_either_secret_verifies_every_payload(language, overlapping, tmp_path):
    """The old and the new one; and no other."""
    cases = [case("v1", secret(key), request) for key in V1 for request in overlapping]
    assert answers(language, tmp_path, cases) == ["yes"] * (2 * COUNT)


@pytest.mark.parametrize("language", LANGUAGES)
def test_either_public_key_verifies_every_payload(language, by_private_key, tmp_path):
    """Whatever the bytes of the body are."""
    cases = [case("v1a", public_key(key), request) for key in V1A for request in by_private_key]
    assert answers(language, tmp_path, cases) == ["yes"] * (2 * COUNT)


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_libraries_sign_as_we_do(language, overlapping, tmp_path):
    """Byte for byte: what theirs make, ours would have made."""
    cases = [case("v1", secret(V1[0]), request)._replace(do="sign") for request in overlapping]
    ours = [each.signatures.partition(" ")[0] for each in cases]
    assert answers(language, tmp_path, cases) == ours


def tampered(asked):
    """*asked* with each of its parts changed; by five of another case."""
    other = base64.b64encode(bytes(64)).decode()
    first = asked.signatures.partition(",")[2].partition(" ")[0]
    late, early = (str(int(asked.stamp) + moved_s) for moved_s in (-301, 3_600))
    yield asked._replace(body=asked.body + b" ")
    yield asked._replace(body=asked.body[1:] or b"x")
    yield asked._replace(id=asked.id + "0")
    yield asked._replace(id="")
    yield asked._replace(stamp=str(int(asked.stamp) - 1))
    yield asked._replace(stamp=late)
    yield asked._replace(stamp=early)
    yield asked._replace(stamp="")
    yield asked._replace(stamp="x" + asked.stamp)
    yield asked._replace(signatures="")
    yield asked._replace(signatures=f"{asked.do},{other}")
    yield asked._replace(signatures=f"{asked.do},")
    yield asked._replace(signatures=asked.do)
    yield asked._replace(signatures=f"v2,{first}")
    yield asked._replace(signatures=first)
    yield asked._replace(signatures=f"{asked.do},{first[::-1]}")
    yield asked._replace(signatures=asked.signatures.replace(",", ";"))
    yield asked._replace(signatures=f"{asked.do},{first[:-4]}")
    # The full stops move, and the content that is signed stays the same.
    yield asked._replace(id=f"{asked.id}.{asked.stamp}", stamp="")
    yield asked._replace(body=asked.stamp.encode() + b"." + asked.body)


@pytest.mark.parametrize("do", ["v1", "v1a"])
@pytest.mark.parametrize("language", LANGUAGES)
def test_nothing_that_was_tampered_with_is_ours(
    language, do, overlapping, by_private_key, tmp_path
):
    """A hundred cases, and another key."""
    found = [case("v1", secret(V1[0]), request) for request in overlapping[: TAMPERED // 20]]
    stranger = secret(SigningKey("v1", bytes(32), 0))
    if do == "v1a":
        key = public_key(V1A[0])
        found = [case("v1a", key, request) for request in by_private_key[: TAMPERED // 20]]
        stranger = public_key(SigningKey("v1a", bytes(32), 0))
    cases = [changed for each in found for changed in tampered(each)]
    assert len(cases) == TAMPERED
    cases += [each._replace(key=stranger) for each in found]
    assert set(answers(language, tmp_path, cases)) == {"no"}


def test_each_attempt_has_its_time_and_the_same_id():
    """A retry after hours is as fresh as the first attempt."""

    class Clock(SystemClock):
        moved_ms = 0

        def wall_ms(self):
            """Milliseconds."""
            return 1_614_265_330_000 + self.moved_ms

    async def scenario():
        async with FakeSink() as sink, opened(clock=clock) as transport:
            signing = SigningKeys(origin_of(sink.uri()), (V1[0],))
            destination = Destination(sink.uri(), signing=signing)
            for moved_s in (0, 7_200):
                clock.moved_ms = moved_s * 1_000
                done = asyncio.get_running_loop().create_future()
                sent = event(1, "text/plain", b"x")
                transport.send(sent, destination, 5.0, done.set_result, "a.0.1.0.9c.1")
                await done
            return sink.requests

    clock = Clock()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        first, second = runner.run(scenario())
    assert first.header("webhook-id") == second.header("webhook-id") == "a-0-1-0-9c-1"
    stamps = [each.header("webhook-timestamp") for each in (first, second)]
    assert stamps == ["1614265330", "1614272530"]
    assert first.header("webhook-signature") != second.header("webhook-signature")


def test_the_vector_of_the_guide_is_right():
    """For those who write their own."""
    rows = dict(
        re.findall(r"^\| `?([a-z- ]+?)`? \| `(.*)` \|$", GUIDE.read_text("utf-8"), re.MULTILINE)
    )
    seed = bytes.fromhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")
    key = SigningKey("v1a", seed, 0)
    assert rows["public key"] == public_key(key)
    signer = RequestSigner(SigningKeys(origin_of("https://example.com/"), (key,)))
    stamp_ms = int(rows["webhook-timestamp"]) * 1_000
    lines = signer.lines(rows["webhook-id"], stamp_ms, rows["body"].encode()).decode()
    assert f"webhook-signature: {rows['webhook-signature']}\r\n" in lines
