"""Decodes a request's JSON, within limits: any bytes give a value or a ``ResourceError``."""

import json
import re
from typing import Any, Final

import msgspec

from distributary.core.errors import Fault, ResourceError

RESOURCE_BYTES_MAX: Final = 256 * 1024
"""Largest body of a resource, bytes. 1,000 filter nodes (their limit) of 200 bytes fit; a store
of 100,000 resources stays within what a disk holds."""

JSON_DEPTH_MAX: Final = 100
"""Deepest nesting of arrays and objects. Filters may nest 32 deep, two JSON levels each, so
that the filters' own limit answers first; the interpreter's stack takes ten times as much."""

# Reads an unclosed string to the end. Else each quote in it would be tried anew, which takes
# minutes on a hostile body.
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
_NOT_BRACKET = re.compile(rb"[^\[\]{}]+")


def decode_json(body: bytes) -> object:
    """Return the JSON value in *body*.

    Stricter than most parsers. Refuses a member that occurs twice in an object (reader and writer
    may each pick another one), ``NaN``, a byte order mark, lone surrogates and numbers beyond a
    double.

    Args:
        body: At most ``RESOURCE_BYTES_MAX`` bytes; the receiver answers 413 before.

    Raises:
        ResourceError: *body* is not JSON, or nests deeper than ``JSON_DEPTH_MAX``.

    Source:
        RFC 8259, sections 4 (names within an object should be unique) and 8.1 (UTF-8).
    """
    if _depth(body) > JSON_DEPTH_MAX:
        raise _refused("too-deep", f"JSON may nest at most {JSON_DEPTH_MAX} deep")
    try:
        value: object = msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise _refused("json", _why(body, error)) from error
    try:
        # A second pass finds what msgspec accepts: members that occur twice.
        json.loads(body, object_pairs_hook=_refuse_twins)
    except ValueError as error:  # digits beyond the interpreter's limit for integers
        raise _refused("json", "the body is not JSON: a number has too many digits") from error
    return value


def _why(body: bytes, error: Exception) -> str:
    """Say why *body*, which msgspec refuses with *error*, is not read."""
    if isinstance(error, msgspec.ValidationError):
        return f"a number is larger than a program can be expected to read: {error}"
    try:
        json.dumps(json.loads(body.decode()), ensure_ascii=False).encode()
    except UnicodeDecodeError as first:
        return f"the body is not UTF-8 at byte {first.start}"
    except UnicodeEncodeError:
        return "a string holds half of a surrogate pair (a lone escape such as \\ud83d)"
    except ValueError:
        pass
    return f"the body is not JSON: {error}"


def _depth(body: bytes) -> int:
    """Deepest nesting of brackets outside strings; meaningless if *body* is not JSON."""
    brackets = _NOT_BRACKET.sub(b"", _STRING.sub(b"", body))
    depth = deepest = 0
    for byte in brackets:
        depth += 1 if byte in b"[{" else -1
        if depth > deepest:
            deepest = depth
            if deepest > JSON_DEPTH_MAX:
                break
    return deepest


def _refuse_twins(pairs: list[tuple[str, Any]]) -> None:
    names = [name for name, _ in pairs]
    if len(set(names)) != len(names):
        twin = next(name for name in names if names.count(name) > 1)
        raise _refused("duplicate", f"a member stands twice in one object: {twin[:60]!r}")


def _refused(code: str, message: str) -> ResourceError:
    return ResourceError([Fault("$", code, message)])
