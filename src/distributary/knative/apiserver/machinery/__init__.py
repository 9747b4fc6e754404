"""The conventions of the Kubernetes API, as pure functions over JSON objects.

Called by ``apiserver.objects`` (metadata), ``apiserver.http`` (everything else). Knows no kind of
ours: what is particular to one stands in its ``Kind`` or in ``resource.knative``.
"""

from distributary.knative.apiserver.machinery._apply import UPDATE_MANAGERS_MAX, apply, note_update
from distributary.knative.apiserver.machinery._check_metadata import (
    ANNOTATIONS_BYTES_MAX,
    CAUSES_MAX,
    check_metadata,
)
from distributary.knative.apiserver.machinery._discovery import (
    GIT_VERSION,
    aggregated,
    api_group,
    api_groups,
    api_versions,
    resource_list,
    verbs,
    version,
)
from distributary.knative.apiserver.machinery._gnostic import (
    OPENAPI_V2_PROTOBUF,
    OPENAPI_V2_PROTOBUF_TYPE,
    openapi_v2_protobuf,
)
from distributary.knative.apiserver.machinery._kind import Column, Key, Kind, Object
from distributary.knative.apiserver.machinery._meta_schemas import META, META_SCHEMAS
from distributary.knative.apiserver.machinery._metadata import (
    METADATA_FIELDS,
    OBJECT_BYTES_MAX,
    check_size,
    for_create,
    for_update,
    unknown_metadata,
    with_generation,
    with_version,
)
from distributary.knative.apiserver.machinery._openapi import (
    openapi_hash,
    openapi_v2,
    openapi_v3,
    openapi_v3_index,
    patch_types,
)
from distributary.knative.apiserver.machinery._patch import OPERATIONS_MAX, json_patch, merge_patch
from distributary.knative.apiserver.machinery._read import (
    BODY_BYTES_MAX,
    DEPTH_MAX,
    VALUES_MAX,
    check_depth,
    read_object,
    read_value,
)
from distributary.knative.apiserver.machinery._selector import (
    REQUIREMENTS_MAX,
    SELECTOR_CHARS_MAX,
    Selector,
    field_selector,
    label_selector,
)
from distributary.knative.apiserver.machinery._shape import ANY, Shape
from distributary.knative.apiserver.machinery._status import (
    conflict,
    invalid,
    status_of,
    success_status,
    warning_header,
)
from distributary.knative.apiserver.machinery._status_error import REASONS, Cause, StatusError
from distributary.knative.apiserver.machinery._strategic import strategic_merge_patch
from distributary.knative.apiserver.machinery._table import (
    Include,
    age,
    list_metadata,
    partial,
    table,
)

__all__ = [
    "ANNOTATIONS_BYTES_MAX",
    "ANY",
    "BODY_BYTES_MAX",
    "CAUSES_MAX",
    "DEPTH_MAX",
    "GIT_VERSION",
    "META",
    "METADATA_FIELDS",
    "META_SCHEMAS",
    "OBJECT_BYTES_MAX",
    "OPENAPI_V2_PROTOBUF",
    "OPENAPI_V2_PROTOBUF_TYPE",
    "OPERATIONS_MAX",
    "REASONS",
    "REQUIREMENTS_MAX",
    "SELECTOR_CHARS_MAX",
    "UPDATE_MANAGERS_MAX",
    "VALUES_MAX",
    "Cause",
    "Column",
    "Include",
    "Key",
    "Kind",
    "Object",
    "Selector",
    "Shape",
    "StatusError",
    "age",
    "aggregated",
    "api_group",
    "api_groups",
    "api_versions",
    "apply",
    "check_depth",
    "check_metadata",
    "check_size",
    "conflict",
    "field_selector",
    "for_create",
    "for_update",
    "invalid",
    "json_patch",
    "label_selector",
    "list_metadata",
    "merge_patch",
    "note_update",
    "openapi_hash",
    "openapi_v2",
    "openapi_v2_protobuf",
    "openapi_v3",
    "openapi_v3_index",
    "partial",
    "patch_types",
    "read_object",
    "read_value",
    "resource_list",
    "status_of",
    "strategic_merge_patch",
    "success_status",
    "table",
    "unknown_metadata",
    "verbs",
    "version",
    "warning_header",
    "with_generation",
    "with_version",
]
