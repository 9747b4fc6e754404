"""Definitions that every kind's schema refers to: metadata, lists, statuses, deletes, watches."""

from typing import Final

from distributary.knative.apiserver.machinery._kind import Object

META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1."
"""Prefix of the names of these definitions."""

_REF: Final = "#/definitions/"


def _text(description: str) -> Object:
    return {"description": description, "type": "string"}


def _whole(description: str, bits: int = 64) -> Object:
    return {"description": description, "type": "integer", "format": f"int{bits}"}


def _flag(description: str) -> Object:
    return {"description": description, "type": "boolean"}


def _ref(name: str, description: str) -> Object:
    return {"description": description, "$ref": f"{_REF}{META}{name}"}


def _texts(description: str) -> Object:
    return {
        "description": description,
        "type": "object",
        "additionalProperties": {"type": "string"},
    }


def _words(description: str) -> Object:
    return {
        "description": description,
        "type": "array",
        "items": {"type": "string"},
        "x-kubernetes-list-type": "atomic",
    }


def _items(description: str, name: str) -> Object:
    return {
        "description": description,
        "type": "array",
        "items": {"$ref": f"{_REF}{META}{name}"},
        "x-kubernetes-list-type": "atomic",
    }


def _struct(description: str, required: tuple[str, ...] = (), **properties: Object) -> Object:
    value = {"description": description, "type": "object", "properties": properties}
    return {**value, "required": list(required)} if required else value


_OBJECT_META: Final = _struct(
    "Metadata that every object has.",
    annotations=_texts("Texts for tools and people; at most 256 KiB together."),
    creationTimestamp=_ref("Time", "When the object was created. The server sets it."),
    deletionGracePeriodSeconds=_whole("Seconds from the delete to the end. The server sets it."),
    deletionTimestamp=_ref(
        "Time", "When the delete was asked for; the object stays until no finalizer is left."
    ),
    finalizers={
        "description": "Who has to agree before the object goes away.",
        "type": "array",
        "items": {"type": "string"},
        "x-kubernetes-list-type": "set",
        "x-kubernetes-patch-strategy": "merge",
    },
    generateName=_text("What a name begins with that the server makes, where `name` is absent."),
    generation=_whole("Counts the changes of the spec. The server sets it."),
    labels=_texts("Words that selectors choose objects by."),
    managedFields=_items("Who set which fields. The server keeps it.", "ManagedFieldsEntry"),
    name=_text("Unique in its namespace among the objects of the kind. It cannot be changed."),
    namespace=_text("The room of the name; default: `default`. It cannot be changed."),
    ownerReferences={
        "description": "Objects that this one belongs to. They are kept and not acted upon.",
        "type": "array",
        "items": {"$ref": f"{_REF}{META}OwnerReference"},
        "x-kubernetes-list-map-keys": ["uid"],
        "x-kubernetes-list-type": "map",
        "x-kubernetes-patch-merge-key": "uid",
        "x-kubernetes-patch-strategy": "merge",
    },
    resourceVersion=_text("Changes with every change. A write that names an older one fails."),
    selfLink=_text("Not used."),
    uid=_text("Unique for ever; a recreated object has another one. The server sets it."),
)

_STATUS: Final = {
    META + "Status": _struct(
        "How a request ended that has no object to show.",
        apiVersion=_text("`v1`."),
        kind=_text("`Status`."),
        metadata=_ref("ListMeta", "Empty."),
        status=_text("`Success` or `Failure`."),
        message=_text("A sentence for people."),
        reason=_text("A word for programs."),
        details=_ref("StatusDetails", "What it is about, and every fault found."),
        code=_whole("HTTP status.", 32),
    )
    | {"x-kubernetes-group-version-kind": [{"group": "", "kind": "Status", "version": "v1"}]},
    META + "StatusDetails": _struct(
        "What a Status is about.",
        causes=_items("Every fault found.", "StatusCause"),
        group=_text("API group of the kind."),
        kind=_text("Kind, or its plural."),
        name=_text("Name of the object."),
        retryAfterSeconds=_whole("When to try again.", 32),
        uid=_text("`metadata.uid` of the object."),
    ),
    META + "StatusCause": _struct(
        "One fault.",
        field=_text("Where: `spec.filters[0].exact`."),
        message=_text("What is wrong."),
        reason=_text("A word for programs."),
    ),
}

_REQUESTS: Final = {
    META + "DeleteOptions": _struct(
        "How to delete.",
        apiVersion=_text("`v1`."),
        kind=_text("`DeleteOptions`."),
        dryRun=_words("`All`: nothing is stored."),
        gracePeriodSeconds=_whole("Taken and not used."),
        orphanDependents=_flag("Taken and not used."),
        preconditions=_ref("Preconditions", "What must be so."),
        propagationPolicy=_text("Taken and not used."),
    ),
    META + "Preconditions": _struct(
        "What must be so before a delete.",
        resourceVersion=_text("The object's version."),
        uid=_text("The object's uid."),
    ),
    META + "Patch": _struct("A change of an object, in the format that the content type names."),
}

META_SCHEMAS: Final[dict[str, Object]] = {
    META + "ObjectMeta": _OBJECT_META,
    META + "ListMeta": _struct(
        "Metadata of a list.",
        (),
        **{"continue": _text("Where the list goes on; opaque.")},
        remainingItemCount=_whole("How many objects are left, where that is known."),
        resourceVersion=_text("Version of the list; a watch may begin with it."),
        selfLink=_text("Not used."),
    ),
    META + "OwnerReference": _struct(
        "An object that another one belongs to.",
        ("apiVersion", "kind", "name", "uid"),
        apiVersion=_text("Its API version."),
        blockOwnerDeletion=_flag("Kept and not used."),
        controller=_flag("Whether it is the one that manages the object."),
        kind=_text("Its kind."),
        name=_text("Its name."),
        uid=_text("Its uid."),
    ),
    META + "ManagedFieldsEntry": _struct(
        "Which fields one writer has set.",
        apiVersion=_text("API version that the fields are named in."),
        fieldsType=_text("`FieldsV1`."),
        fieldsV1=_ref("FieldsV1", "The fields."),
        manager=_text("Who."),
        operation=_text("`Apply` or `Update`."),
        subresource=_text("`status`, or empty."),
        time=_ref("Time", "When it last changed."),
    ),
    META + "FieldsV1": {
        "description": "Fields as a tree: `f:` member, `k:` item by its keys, `v:` value.",
        "type": "object",
    },
    META + "LabelSelector": _struct(
        "Chooses objects by their labels.",
        matchExpressions=_items("All of them must hold.", "LabelSelectorRequirement"),
        matchLabels=_texts("Labels that must be there with these values."),
    )
    | {"x-kubernetes-map-type": "atomic"},
    META + "LabelSelectorRequirement": _struct(
        "One requirement on a label.",
        ("key", "operator"),
        key=_text("Key of the label."),
        operator=_text("`In`, `NotIn`, `Exists` or `DoesNotExist`."),
        values=_words("For `In` and `NotIn`."),
    ),
    META + "Time": {
        "description": "A time, RFC 3339.",
        "type": "string",
        "format": "date-time",
    },
    META + "MicroTime": {
        "description": "A time with microseconds, RFC 3339.",
        "type": "string",
        "format": "date-time",
    },
    META + "WatchEvent": _struct(
        "One change that a watch tells.",
        ("type", "object"),
        object={"description": "The object, or a Status.", "type": "object"},
        type=_text("`ADDED`, `MODIFIED`, `DELETED`, `BOOKMARK` or `ERROR`."),
    ),
    **_STATUS,
    **_REQUESTS,
}
"""Definitions of OpenAPI v2 by name, to be read together with those of the kinds."""
