"""JSON patch and merge patch. Neither modifies its argument."""

import copy
from typing import Any, Final

import jsonpatch
import jsonpointer
import msgspec

from distributary.knative.apiserver.machinery._kind import Object
from distributary.knative.apiserver.machinery.limits import OBJECT_BYTES_MAX
from distributary.knative.apiserver.machinery.read import check_depth
from distributary.knative.apiserver.machinery.status import Cause, StatusError

OPERATIONS_MAX: Final = 1_000
"""Operations in one JSON patch. All writes of objects wait for each other, and an operation takes
up to 20 us: 10,000, the limit of Kubernetes, would hold up all of them for 0.2 s."""

_VALUED: Final = frozenset({"add", "replace", "test"})
_MOVING: Final = frozenset({"copy", "move"})
_OPERATIONS: Final = _VALUED | _MOVING | {"remove"}


def json_patch(obj: Object, ops: Any) -> Object:
    """Apply the operations *ops* to *obj*, in order; all or none.

    Args:
        obj: The object to patch.
        ops: The patch: a list of operations.

    Raises:
        StatusError: ``BadRequest``: *ops* is no JSON patch. ``Invalid``: an operation is not
            applicable, a ``test`` failed, or copies add up to more than ``OBJECT_BYTES_MAX``.
            ``RequestEntityTooLarge``: more than ``OPERATIONS_MAX`` operations.

    Source:
        RFC 6902.
    """
    _check_operations(ops)
    patched: Any = copy.deepcopy(obj)
    copied_bytes = 0
    for index, op in enumerate(ops):
        try:
            if op["op"] == "copy":
                copied = jsonpointer.resolve_pointer(patched, op["from"])
                copied_bytes += len(msgspec.json.encode(copied))
                if copied_bytes > OBJECT_BYTES_MAX:
                    why = f"copies may add at most {OBJECT_BYTES_MAX} bytes"
                    raise StatusError("Invalid", f"operation {index} of the JSON patch: {why}")
            patched = jsonpatch.JsonPatch([copy.deepcopy(op)]).apply(patched, in_place=True)
        # For some inapplicable operations (adding to a string, or at a number) the library raises
        # the errors of the Python operations that it tried.
        except (
            jsonpatch.JsonPatchException,
            jsonpointer.JsonPointerException,
            *(TypeError, KeyError, IndexError, AttributeError, ValueError),
        ) as error:
            raise _not_applicable(index, op, error) from error
    if not isinstance(patched, dict):
        raise StatusError("Invalid", "the result of the patch is not an object")
    check_depth(patched)
    return patched


def merge_patch(obj: Object, patch: Any) -> Object:
    """Merge *patch* into *obj*: null removes a member, objects are merged, other values replace.

    Raises:
        StatusError: ``BadRequest``: *patch* is no object, or the result nests too deep.

    Source:
        RFC 7386.
    """
    if not isinstance(patch, dict):
        raise StatusError("BadRequest", "a merge patch must be an object")
    merged: Object = _merged(obj, patch)
    check_depth(merged)
    return merged


def _merged(value: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    merged = dict(value) if isinstance(value, dict) else {}
    for name, change in patch.items():
        if change is None:
            merged.pop(name, None)
        else:
            merged[name] = _merged(merged.get(name), change)
    return merged


def _check_operations(ops: Any) -> None:
    if not isinstance(ops, list):
        raise StatusError("BadRequest", "a JSON patch must be a list of operations")
    if len(ops) > OPERATIONS_MAX:
        raise StatusError(
            "RequestEntityTooLarge",
            f"the allowed maximum operations in a JSON patch is {OPERATIONS_MAX}, got {len(ops)}",
        )
    for index, op in enumerate(ops):
        fault = _fault(op)
        if fault:
            raise StatusError("BadRequest", f"operation {index} of the JSON patch: {fault}")


def _fault(op: Any) -> str:
    if not isinstance(op, dict):
        return "it must be an object"
    name = op.get("op")
    if not isinstance(name, str) or name not in _OPERATIONS:
        return f"op must be one of {', '.join(sorted(_OPERATIONS))}"
    if not isinstance(op.get("path"), str):
        return "path must be a JSON pointer"
    if name in _VALUED and "value" not in op:
        return "value is missing"
    if name in _MOVING and not isinstance(op.get("from"), str):
        return "from must be a JSON pointer"
    return ""


def _not_applicable(index: int, op: Object, error: Exception) -> StatusError:
    why = "the value differs" if op["op"] == "test" else str(error)[:300]
    message = f"operation {index} of the JSON patch ({op['op']} {op['path'][:300]}): {why}"
    field = op["path"][:300].strip("/").replace("/", ".")
    return StatusError("Invalid", message, causes=[Cause(field, "FieldValueInvalid", why)])
