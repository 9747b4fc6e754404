"""Content negotiation: ``Accept`` as the Kubernetes API uses it.

Source:
    RFC 9110, 12.5.1; Kubernetes API concepts, "Receiving resources as Tables" and "Alternate
    representations". Parameters of a media range (``as``, ``v``, ``g``) select a form.
"""

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

from distributary.knative.apiserver.machinery import StatusError

RANGES_MAX: Final = 32
"""Media ranges that are read; kubectl sends three."""

JSON: Final = "application/json"
_META: Final = "meta.k8s.io"
_META_VERSIONS: Final = ("v1", "v1beta1")
_ANY_JSON: Final = (JSON, "application/*", "*/*")


class MediaRange(NamedTuple):
    """One media range of ``Accept``.

    Attributes:
        type: In lower case; may be a wildcard.
        parameters: Names in lower case, values without quotes; without ``q``.
    """

    type: str
    parameters: dict[str, str]


class Form(NamedTuple):
    """Representation of objects in a response.

    Attributes:
        shape: Whole objects, rows of a table, or only metadata.
        version: Of ``meta.k8s.io``, if the shape is one of its kinds.
    """

    shape: Literal["object", "table", "metadata"] = "object"
    version: str = "v1"

    @property
    def api_version(self) -> str:
        """Of ``Table`` and ``PartialObjectMetadata``."""
        return f"{_META}/{self.version}"


_SHAPES: Final[dict[str, Literal["table", "metadata"]]] = {
    "Table": "table",
    "PartialObjectMetadata": "metadata",
    "PartialObjectMetadataList": "metadata",
}


def read_accept(accept: str) -> list[MediaRange]:
    """The media ranges of *accept*, most preferred first, without those of ``q=0``."""
    weighed: list[tuple[float, MediaRange]] = []
    for text in accept.split(",")[:RANGES_MAX]:
        media_type, *rest = (part.strip() for part in text.split(";"))
        parameters = {}
        for part in rest:
            name, _, value = part.partition("=")
            parameters[name.strip().lower()] = value.strip().strip('"')
        weight = _weight(parameters.pop("q", "1"))
        if media_type and weight > 0:
            weighed.append((weight, MediaRange(media_type.lower(), parameters)))
    weighed.sort(key=lambda one: -one[0])
    return [media_range for _, media_range in weighed]


def choose_form(accept: str) -> Form:
    """The most preferred supported form in *accept*; empty: whole objects.

    Raises:
        StatusError: ``NotAcceptable``.
    """
    if not accept.strip():
        return Form()
    for media_type, parameters in read_accept(accept):
        if media_type not in _ANY_JSON:
            continue
        wanted = parameters.get("as")
        if wanted is None:
            return Form()
        version = parameters.get("v", "v1")
        if wanted in _SHAPES and parameters.get("g") == _META and version in _META_VERSIONS:
            return Form(_SHAPES[wanted], version)
    raise not_acceptable((JSON,))


def choose_type(accept: str, offered: Sequence[str]) -> str:
    """The most preferred media type of *accept* among *offered*; empty: the first offered.

    Raises:
        StatusError: ``NotAcceptable``.
    """
    if not accept.strip():
        return offered[0]
    for media_type, _ in read_accept(accept):
        for offer in offered:
            if media_type in (offer, "application/*", "*/*"):
                return offer
    raise not_acceptable(offered)


def not_acceptable(offered: Sequence[str]) -> StatusError:
    """``NotAcceptable``: the client accepts none of *offered*."""
    listed = ", ".join(offered)
    return StatusError("NotAcceptable", f"only the following media types are accepted: {listed}")


def _weight(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 1.0
