"""Schemas of the types shared by all kinds: metadata, lists, statuses, deletes, watches."""

from typing import Final

from distributary.knative.apiserver.machinery.schema_words import (
    META,
    Schema,
    array,
    flag,
    keyed,
    ref,
    struct,
    text,
    texts,
    time,
    whole,
)

_OBJECT_META: Final = struct(
    "Metadata that every object has.",
    annotations=texts("Texts for tools and people; at most 256 KiB together."),
    creationTimestamp=ref(META + "Time", "When the object was created. The server sets it."),
    deletionGracePeriodSeconds=whole("Seconds from the delete to the end. The server sets it."),
    deletionTimestamp=ref(
        META + "Time", "When the delete was asked for; the object stays until no finalizer is left."
    ),
    finalizers=array(
        "Who has to agree before the object goes away.", list_type="set", patch_strategy="merge"
    ),
    generateName=text("What a name begins with that the server makes, where `name` is absent."),
    generation=whole("Counts the changes of the spec. The server sets it."),
    labels=texts("Words that selectors choose objects by."),
    managedFields=array("Who set which fields. The server keeps it.", META + "ManagedFieldsEntry"),
    name=text("Unique in its namespace among the objects of the kind. It cannot be changed."),
    namespace=text("The room of the name; default: `default`. It cannot be changed."),
    ownerReferences=keyed(
        META + "OwnerReference",
        "Objects that this one belongs to. They are kept and not acted upon.",
        "uid",
    ),
    resourceVersion=text("Changes with every change. A write that names an older one fails."),
    selfLink=text("Not used."),
    uid=text("Unique for ever; a recreated object has another one. The server sets it."),
)

META_SCHEMAS: Final[dict[str, Schema]] = {
    META + "Status": struct(
        "How a request ended that has no object to show.",
        apiVersion=text("`v1`."),
        kind=text("`Status`."),
        metadata=ref(META + "ListMeta", "Empty."),
        status=text("`Success` or `Failure`."),
        message=text("A sentence for people."),
        reason=text("A word for programs."),
        details=ref(META + "StatusDetails", "What it is about, and every fault found."),
        code=whole("HTTP status.", bits=32),
    )
    | {"x-kubernetes-group-version-kind": [{"group": "", "kind": "Status", "version": "v1"}]},
    META + "StatusDetails": struct(
        "What a Status is about.",
        causes=array("Every fault found.", META + "StatusCause"),
        group=text("API group of the kind."),
        kind=text("Kind, or its plural."),
        name=text("Name of the object."),
        retryAfterSeconds=whole("When to try again.", bits=32),
        uid=text("`metadata.uid` of the object."),
    ),
    META + "StatusCause": struct(
        "One fault.",
        field=text("Where: `spec.filters[0].exact`."),
        message=text("What is wrong."),
        reason=text("A word for programs."),
    ),
    META + "DeleteOptions": struct(
        "How to delete.",
        apiVersion=text("`v1`."),
        kind=text("`DeleteOptions`."),
        dryRun=array("`All`: nothing is stored."),
        gracePeriodSeconds=whole("Taken and not used."),
        orphanDependents=flag("Taken and not used."),
        preconditions=ref(META + "Preconditions", "What must be so."),
        propagationPolicy=text("Taken and not used."),
    ),
    META + "Preconditions": struct(
        "What must be so before a delete.",
        resourceVersion=text("The object's version."),
        uid=text("The object's uid."),
    ),
    META + "Patch": struct("A change of an object, in the format that the content type names."),
    META + "ObjectMeta": _OBJECT_META,
    META + "ListMeta": struct(
        "Metadata of a list.",
        **{"continue": text("Where the list goes on; opaque.")},
        remainingItemCount=whole("How many objects are left, where that is known."),
        resourceVersion=text("Version of the list; a watch may begin with it."),
        selfLink=text("Not used."),
    ),
    META + "OwnerReference": struct(
        "An object that another one belongs to.",
        ("apiVersion", "kind", "name", "uid"),
        apiVersion=text("Its API version."),
        blockOwnerDeletion=flag("Kept and not used."),
        controller=flag("Whether it is the one that manages the object."),
        kind=text("Its kind."),
        name=text("Its name."),
        uid=text("Its uid."),
    ),
    META + "ManagedFieldsEntry": struct(
        "Which fields one writer has set.",
        apiVersion=text("API version that the fields are named in."),
        fieldsType=text("`FieldsV1`."),
        fieldsV1=ref(META + "FieldsV1", "The fields."),
        manager=text("Who."),
        operation=text("`Apply` or `Update`."),
        subresource=text("`status`, or empty."),
        time=ref(META + "Time", "When it last changed."),
    ),
    META + "FieldsV1": {
        "description": "Fields as a tree: `f:` member, `k:` item by its keys, `v:` value.",
        "type": "object",
    },
    META + "LabelSelector": struct(
        "Chooses objects by their labels.",
        matchExpressions=array("All of them must hold.", META + "LabelSelectorRequirement"),
        matchLabels=texts("Labels that must be there with these values."),
    )
    | {"x-kubernetes-map-type": "atomic"},
    META + "LabelSelectorRequirement": struct(
        "One requirement on a label.",
        ("key", "operator"),
        key=text("Key of the label."),
        operator=text("`In`, `NotIn`, `Exists` or `DoesNotExist`."),
        values=array("For `In` and `NotIn`."),
    ),
    META + "Time": time("A time, RFC 3339."),
    META + "MicroTime": time("A time with microseconds, RFC 3339."),
    META + "WatchEvent": struct(
        "One change that a watch tells.",
        ("type", "object"),
        object={"description": "The object, or a Status.", "type": "object"},
        type=text("`ADDED`, `MODIFIED`, `DELETED`, `BOOKMARK` or `ERROR`."),
    ),
}
"""Definitions of OpenAPI v2 by name, in addition to those of the kinds."""
