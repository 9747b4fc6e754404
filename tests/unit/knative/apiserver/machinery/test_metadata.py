"""Metadata: what a client may say, what the server sets, what stays."""

import pytest

from distributary.knative.apiserver.machinery import StatusError
from distributary.knative.apiserver.machinery.limits import OBJECT_BYTES_MAX
from distributary.knative.apiserver.machinery.metadata import (
    check_size,
    for_create,
    for_update,
    unknown_metadata,
    with_generation,
    with_version,
)
from distributary.knative.apiserver.machinery.metadata_faults import (
    ANNOTATIONS_BYTES_MAX,
    CAUSES_MAX,
    check_metadata,
)
from distributary.knative.kinds import CONFIG_MAP, NAMESPACE, SERVICE, TRIGGER

NOW = "2026-01-02T03:04:05Z"


def create(obj, kind=TRIGGER, namespace="ns", name=""):
    """What the store makes of a client's object."""
    return for_create(kind, obj, namespace=namespace, name=name, uid="u-1", now=NOW, suffix="ab2cd")


def standing(**more):
    """A Trigger as it stands in the store, with more metadata."""
    metadata = {"name": "t", "namespace": "ns", "uid": "u-1", "generation": 3}
    metadata |= {"creationTimestamp": NOW, "resourceVersion": "7"}
    return {
        "apiVersion": "eventing.knative.dev/v1",
        "kind": "Trigger",
        "metadata": metadata | more,
        "spec": {"broker": "default"},
        "status": {"observedGeneration": 3},
    }


def test_a_created_object_has_what_the_server_says():
    """Whatever a client says of uid, times, versions and status is left out."""
    sent = standing(labels={"a": "b"}, uid="mine", deletionTimestamp=NOW, colour="red")
    made = create(sent)
    assert made == {
        "apiVersion": "eventing.knative.dev/v1",
        "kind": "Trigger",
        "metadata": {
            "name": "t",
            "namespace": "ns",
            "uid": "u-1",
            "generation": 1,
            "creationTimestamp": NOW,
            "labels": {"a": "b"},
        },
        "spec": {"broker": "default"},
    }
    assert sent == standing(labels={"a": "b"}, uid="mine", deletionTimestamp=NOW, colour="red")


def test_a_kind_without_status_keeps_that_member_and_counts_no_generations():
    """Only what the kind says is the server's."""
    made = create({"metadata": {"name": "c"}, "status": {"x": 1}}, CONFIG_MAP)
    assert made["status"] == {"x": 1}
    assert "generation" not in made["metadata"]


def test_a_name_is_generated_from_its_beginning():
    """The suffix stands behind ``generateName``."""
    assert create({"metadata": {"generateName": "t-"}})["metadata"]["name"] == "t-ab2cd"


def test_a_cluster_wide_object_has_no_namespace():
    """A Namespace lies in none."""
    made = create({"metadata": {"name": "n"}}, NAMESPACE, namespace="")
    assert "namespace" not in made["metadata"]


@pytest.mark.parametrize(
    "obj",
    [
        {"kind": "Broker", "metadata": {"name": "t"}},
        {"apiVersion": "v1", "metadata": {"name": "t"}},
        {"metadata": {"name": "t", "namespace": "other"}},
        {"metadata": {"name": "other"}},
        {"metadata": [1]},
    ],
    ids=["kind", "version", "namespace", "name", "type"],
)
def test_what_contradicts_the_path_is_a_bad_request(obj):
    """Kind, version, namespace and name must be those of the path."""
    with pytest.raises(StatusError) as caught:
        create(obj, name="t")
    assert caught.value.status == 400


def test_an_update_keeps_what_only_the_server_says():
    """A spec that changed counts; the status of the main resource stays."""
    new = standing(labels={"a": "b"})
    new["metadata"] |= {"generation": 99, "creationTimestamp": "x", "name": "t"}
    new |= {"spec": {"broker": "other"}, "status": {"observedGeneration": 99}}
    updated = with_generation(TRIGGER, for_update(TRIGGER, new, standing()), standing())
    assert updated == standing(labels={"a": "b"}, generation=4) | {"spec": {"broker": "other"}}


def test_labels_alone_do_not_count_as_a_generation():
    """Only what the object asks for counts."""
    updated = for_update(TRIGGER, standing(labels={"a": "b"}), standing())
    assert with_generation(TRIGGER, updated, standing()) == standing(labels={"a": "b"})


def test_an_update_that_changes_nothing_is_equal():
    """So that the store writes nothing."""
    assert for_update(TRIGGER, standing(), standing()) == standing()


def test_the_status_subresource_changes_the_status_alone():
    """Labels and spec of the request are ignored."""
    new = standing(labels={"a": "b"}) | {"spec": {}, "status": {"observedGeneration": 4}}
    updated = for_update(TRIGGER, new, standing(), subresource="status")
    assert updated == standing() | {"status": {"observedGeneration": 4}}


def test_a_write_of_the_server_changes_both_and_counts_nothing():
    """The reconciler writes status, and the Channel's subscribers."""
    new = standing() | {"spec": {"broker": "x"}, "status": {}}
    assert for_update(TRIGGER, new, standing(), by_server=True) == new


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        ({"resourceVersion": "6"}, "the object has been modified; please apply your changes"),
        ({"uid": "u-0"}, "Precondition failed: UID in precondition: u-0"),
    ],
)
def test_another_version_or_incarnation_is_a_conflict(sent, words):
    """In the words that clients look for."""
    with pytest.raises(StatusError) as caught:
        for_update(TRIGGER, standing(**sent), standing())
    assert caught.value.status == 409
    assert str(caught.value).startswith(
        'Operation cannot be fulfilled on triggers.eventing.knative.dev "t": ' + words
    )


def test_no_version_means_whatever_stands():
    """An unconditional update."""
    new = standing()
    del new["metadata"]["resourceVersion"], new["metadata"]["uid"]
    assert for_update(TRIGGER, new, standing()) == standing()


def test_no_finalizer_is_added_to_what_is_being_deleted():
    """One may only be taken away."""
    old = standing(deletionTimestamp=NOW, finalizers=["a/b"])
    assert "finalizers" not in for_update(TRIGGER, standing(), old)["metadata"]
    with pytest.raises(StatusError) as caught:
        for_update(TRIGGER, standing(finalizers=["a/b", "c/d"]), old)
    assert [cause.field for cause in caught.value.causes] == ["metadata.finalizers"]


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        ([{"manager": "b", "operation": "Apply"}], [{"manager": "b", "operation": "Apply"}]),
        ([{}], None),
        ([{"manager": 1, "operation": "Apply"}], [{"manager": "a", "operation": "Update"}]),
        (None, [{"manager": "a", "operation": "Update"}]),
    ],
    ids=["given", "cleared", "unusable", "absent"],
)
def test_managed_fields_may_be_written_by_clients(sent, kept):
    """Kubectl does, to pass from one way of applying to the other."""
    old = standing(managedFields=[{"manager": "a", "operation": "Update"}])
    updated = for_update(TRIGGER, standing(managedFields=sent), old)
    assert updated["metadata"].get("managedFields") == kept


def test_a_version_is_set_without_touching_the_object():
    """Objects that stand are never changed."""
    old = standing()
    assert with_version(old, 8) == standing(resourceVersion="8")
    assert old == standing()


def test_an_object_above_the_limit_is_refused():
    """With the status that says so."""
    check_size(OBJECT_BYTES_MAX)
    with pytest.raises(StatusError) as caught:
        check_size(OBJECT_BYTES_MAX + 1)
    assert caught.value.status == 413


def test_every_fault_of_the_metadata_is_found():
    """All at once, each with its place and the kind of fault."""
    metadata = {
        "name": "A.b",
        "namespace": "other",
        "labels": {"x/": "ok", "good": "no good", "n": 1},
        "annotations": {"a b": "x", "n": 2},
        "finalizers": ["a/b", 3],
        "ownerReferences": [{"apiVersion": "v1", "kind": "X", "name": ""}],
        "uid": 5,
    }
    causes = check_metadata(TRIGGER, {"metadata": metadata}, "ns")
    assert {(cause.field, cause.reason) for cause in causes} == {
        ("metadata.uid", "FieldValueTypeInvalid"),
        ("metadata.name", "FieldValueInvalid"),
        ("metadata.namespace", "FieldValueInvalid"),
        ("metadata.labels", "FieldValueInvalid"),
        ("metadata.labels[n]", "FieldValueTypeInvalid"),
        ("metadata.annotations", "FieldValueInvalid"),
        ("metadata.annotations[n]", "FieldValueTypeInvalid"),
        ("metadata.finalizers[1]", "FieldValueTypeInvalid"),
        ("metadata.ownerReferences[0].name", "FieldValueRequired"),
        ("metadata.ownerReferences[0].uid", "FieldValueRequired"),
    }


def test_good_metadata_has_no_faults():
    """Prefixes, dots and upper case where they may stand."""
    metadata = {
        "name": "a-1",
        "namespace": "ns",
        "labels": {"example.com/A_b.c": "", "x": "1.2-3"},
        "annotations": {"Example.com/x": "any text\n"},
        "finalizers": ["example.com/x"],
    }
    assert check_metadata(TRIGGER, {"metadata": metadata}, "ns") == []


@pytest.mark.parametrize(
    ("kind", "name", "good"),
    [
        (TRIGGER, "a" * 63, True),
        (TRIGGER, "a" * 64, False),
        (TRIGGER, "a.b", True),
        (SERVICE, "a.b", False),
        (TRIGGER, "a..b", False),
        (CONFIG_MAP, "a.b", True),
        (CONFIG_MAP, "a" * 253, True),
        (CONFIG_MAP, "a" * 254, False),
        (TRIGGER, "-a", False),
        (TRIGGER, "a\n", False),
        (TRIGGER, "", False),
    ],
)
def test_names_are_dns_labels_or_subdomains(kind, name, good):
    """Which of them, the kind says."""
    assert (check_metadata(kind, {"metadata": {"name": name}}, "ns") == []) is good


def test_a_beginning_of_a_name_may_end_with_a_dash():
    """The suffix makes it good; it must leave room for it."""
    assert check_metadata(TRIGGER, {"metadata": {"generateName": "a-"}}, "ns") == []
    assert check_metadata(TRIGGER, {"metadata": {"generateName": "a" * 59}}, "ns") != []


def test_annotations_are_bounded_together():
    """Keys and values count, in bytes."""
    fits = {"a": "x" * (ANNOTATIONS_BYTES_MAX - 1)}
    assert check_metadata(TRIGGER, {"metadata": {"name": "a", "annotations": fits}}, "") == []
    fits["a"] += "x"
    (cause,) = check_metadata(TRIGGER, {"metadata": {"name": "a", "annotations": fits}}, "")
    assert cause.reason == "FieldValueTooLong"


def test_faults_are_bounded():
    """Thousands of bad labels need no thousand lines."""
    labels = {f"bad {i}": "x" for i in range(1000)}
    causes = check_metadata(TRIGGER, {"metadata": {"name": "a", "labels": labels}}, "ns")
    assert len(causes) == CAUSES_MAX


def test_a_namespace_takes_no_namespace():
    """The kind has none."""
    (cause,) = check_metadata(NAMESPACE, {"metadata": {"name": "a", "namespace": "b"}}, "")
    assert cause.reason == "FieldValueForbidden"


def test_unknown_members_are_named_not_refused():
    """They are dropped, with a warning."""
    obj = {"metadata": {"name": "a", "colour": "red"}}
    assert check_metadata(TRIGGER, obj, "ns") == []
    assert unknown_metadata(obj) == ["metadata.colour"]
