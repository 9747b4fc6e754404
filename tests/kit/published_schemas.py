"""Validates documents against the schemas of the API description, strictly."""

import functools
import re
from collections.abc import Iterator
from typing import Any

from jsonschema import Draft202012Validator, ValidationError, validators

from distributary.subscriptions.http import build_openapi

__all__ = ["validator"]


def _pattern(
    _validator: object, pattern: str, instance: object, _schema: object
) -> Iterator[ValidationError]:
    """ECMA-262's ``$`` is the end of the text; Python's is also before a last line break."""
    strict = re.sub(r"\$(?=$|\|\[)", r"\\Z", pattern)
    if isinstance(instance, str) and not re.search(strict, instance):
        yield ValidationError(f"{instance!r} does not match {pattern}")


_Strict = validators.extend(Draft202012Validator, {"pattern": _pattern})


@functools.cache
def validator(name: str) -> Any:
    """Of the schema *name*; it keeps nothing of what it has validated."""
    document = build_openapi()
    reference = {"$ref": f"#/components/schemas/{name}", "components": document["components"]}
    return _Strict(reference)
