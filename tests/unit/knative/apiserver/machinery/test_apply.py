"""Server-side apply: who owns which field, and what happens where two want the same one."""

import pytest

from distributary.knative.apiserver.machinery import StatusError
from distributary.knative.apiserver.machinery.apply import UPDATE_MANAGERS_MAX, apply, note_update
from distributary.knative.kinds import SERVICE, TRIGGER, shape_of

SHAPE = shape_of(SERVICE)
T1, T2, T3 = (f"2026-01-01T00:00:0{i}Z" for i in range(1, 4))


def service(labels=None, **spec):
    """What somebody applies."""
    metadata = {"name": "s"} | ({"labels": labels} if labels else {})
    obj = {"apiVersion": "v1", "kind": "Service", "metadata": metadata}
    return obj | ({"spec": spec} if spec else {})


def applied(current, wanted, manager="a", now=T1, *, force=False, subresource=""):
    """The object after an apply."""
    return apply(
        current,
        wanted,
        manager=manager,
        force=force,
        now=now,
        schema=SHAPE,
        subresource=subresource,
    )


def owners(obj):
    """Manager -> fields."""
    return {entry["manager"]: entry["fieldsV1"] for entry in obj["metadata"]["managedFields"]}


def test_the_first_apply_creates_and_owns_what_it_says():
    """The entry is as the API server writes it; name and kind belong to nobody."""
    wanted = service(labels={"l": "x"}, type="ExternalName", ports=[{"port": 80, "name": "web"}])
    made = applied(None, wanted)
    assert made["spec"] == wanted["spec"]
    assert made["metadata"]["managedFields"] == [
        {
            "manager": "a",
            "operation": "Apply",
            "apiVersion": "v1",
            "time": T1,
            "fieldsType": "FieldsV1",
            "fieldsV1": {
                "f:metadata": {"f:labels": {"f:l": {}}},
                "f:spec": {
                    "f:ports": {
                        'k:{"port":80,"protocol":"TCP"}': {".": {}, "f:name": {}, "f:port": {}}
                    },
                    "f:type": {},
                },
            },
        }
    ]


def test_the_same_apply_again_changes_nothing():
    """Not even the time of the entry."""
    wanted = service(type="A", ports=[{"port": 80}])
    made = applied(None, wanted)
    assert applied(made, wanted, now=T2) == made


def test_what_a_manager_leaves_out_is_removed():
    """Unless somebody else owns it; what is empty then goes too."""
    made = applied(None, service(labels={"l": "x"}, type="A", clusterIP="1"))
    made = applied(made, service(type="A"), "b")
    made = applied(made, service(), now=T2)
    assert made["spec"] == {"type": "A"}
    assert "labels" not in made["metadata"]
    assert owners(made) == {"a": {}, "b": {"f:spec": {"f:type": {}}}}


def test_items_of_a_list_belong_to_their_managers():
    """Each port to the one who applied it; another one's stays."""
    made = applied(None, service(ports=[{"port": 80}, {"port": 81}]))
    made = applied(made, service(ports=[{"port": 82, "name": "b"}]), "b")
    made = applied(made, service(ports=[{"port": 81}]))
    assert made["spec"]["ports"] == [{"port": 81}, {"port": 82, "name": "b"}]


def test_what_stays_of_an_item_keeps_its_key():
    """An item that others still have fields of can be told apart."""
    made = applied(None, service(ports=[{"port": 80, "name": "x"}]))
    changed = {**made, "spec": {"ports": [{"port": 80, "name": "x", "nodePort": 5}]}}
    made = note_update(made, changed, "edit", T2, schema=SHAPE)
    assert applied(made, service())["spec"]["ports"] == [{"port": 80, "nodePort": 5}]


def test_the_order_of_items_is_that_of_the_apply():
    """The first port is the one that is dialled."""
    made = applied(None, service(ports=[{"port": 80}, {"port": 81}]))
    made = applied(made, service(ports=[{"port": 81}, {"port": 80}]))
    assert [port["port"] for port in made["spec"]["ports"]] == [81, 80]


def test_two_who_want_different_values_conflict():
    """Every field is named, with its owner; nothing has changed."""
    made = applied(None, service(type="A", ports=[{"port": 80, "name": "x"}]))
    with pytest.raises(StatusError) as caught:
        applied(made, service(type="B", ports=[{"port": 80, "name": "y"}]), "b")
    assert caught.value.status == 409
    assert [tuple(cause) for cause in caught.value.causes] == [
        (
            '.spec.ports[port=80,protocol="TCP"].name',
            "FieldManagerConflict",
            'conflict with "a"',
        ),
        (".spec.type", "FieldManagerConflict", 'conflict with "a"'),
    ]
    assert str(caught.value).startswith('Apply failed with 2 conflicts: conflicts with "a":\n- ')


def test_one_conflict_is_told_in_one_line():
    """With how and when the other one wrote it."""
    made = note_update(None, service(type="A"), "edit", T1)
    with pytest.raises(StatusError) as caught:
        applied(made, service(type="B"))
    assert str(caught.value) == (
        f'Apply failed with 1 conflict: conflict with "edit" using v1 at {T1}: .spec.type'
    )


def test_force_takes_the_fields_over():
    """The other one owns them no more, and keeps the rest."""
    made = applied(None, service(type="A", clusterIP="1"))
    made = applied(made, service(type="B"), "b", force=True)
    assert made["spec"]["type"] == "B"
    assert owners(made) == {"a": {"f:spec": {"f:clusterIP": {}}}, "b": {"f:spec": {"f:type": {}}}}


def test_two_who_want_the_same_value_share_it():
    """No conflict; it goes when the last one leaves it out."""
    made = applied(applied(None, service(type="A")), service(type="A"), "b")
    made = applied(made, service())
    assert made["spec"] == {"type": "A"}
    assert "spec" not in applied(made, service(), "b")


def test_an_object_that_nobody_tracked_belongs_to_one_before():
    """So that an apply cannot silently take it."""
    with pytest.raises(StatusError, match="before-first-apply"):
        applied(service(type="A"), service(type="B"))


def test_an_update_takes_what_it_changes():
    """And what it removes belongs to nobody."""
    made = applied(None, service(type="A", clusterIP="1", sessionAffinity="x"))
    changed = {**made, "spec": {"type": "B", "clusterIP": "1"}}
    noted = note_update(made, changed, "edit", T2, schema=SHAPE)
    assert owners(noted) == {
        "a": {"f:spec": {"f:clusterIP": {}}},
        "edit": {"f:spec": {"f:type": {}}},
    }
    assert note_update(noted, noted, "other", T3, schema=SHAPE) == noted


def test_who_owns_a_list_as_a_whole_owns_its_items():
    """Entries may have been written where the schema was not known."""
    made = note_update(None, service(ports=[{"port": 80, "name": "x"}]), "edit", T1)
    assert owners(made) == {"edit": {"f:spec": {"f:ports": {}}}}
    with pytest.raises(StatusError, match=r"ports\[port=80,protocol=\"TCP\"\].name"):
        applied(made, service(ports=[{"port": 80, "name": "y"}]))


def test_status_and_the_rest_are_owned_apart():
    """An apply to one never removes fields of the other."""
    made = applied(None, service(type="A") | {"status": {"x": 1}})
    assert "status" not in made
    status = service() | {"status": {"loadBalancer": {}}}
    made = applied(made, status, subresource="status")
    assert made["spec"] == {"type": "A"}
    assert made["status"] == {"loadBalancer": {}}
    entries = made["metadata"]["managedFields"]
    assert [entry.get("subresource", "") for entry in entries] == ["", "status"]


def test_nulls_mean_absent():
    """As for kinds that the API server knows by itself."""
    made = applied(None, service(type="A", clusterIP=None))
    assert made["spec"] == {"type": "A"}


@pytest.mark.parametrize(
    "wanted",
    [
        service() | {"metadata": {"name": "s", "managedFields": [{"manager": "x"}]}},
        service() | {"metadata": 1},
        service(ports=[{"port": 80}, {"port": 80, "protocol": "TCP"}]),
    ],
    ids=["managed fields", "metadata", "twins"],
)
def test_what_cannot_be_applied_is_a_bad_request(wanted):
    """Before anything is changed."""
    with pytest.raises(StatusError) as caught:
        applied(None, wanted)
    assert caught.value.status == 400


def test_writers_of_updates_are_bounded():
    """The oldest become one; applies are kept apart always."""
    made = applied(None, service(type="A"))
    for i in range(UPDATE_MANAGERS_MAX + 5):
        labels = made["metadata"].get("labels", {}) | {f"l{i}": "x"}
        changed = {**made, "metadata": {**made["metadata"], "labels": labels}}
        made = note_update(made, changed, f"m{i:02}", f"2026-01-01T00:01:{i:02}Z", schema=SHAPE)
    found = owners(made)
    assert len(found) == 1 + UPDATE_MANAGERS_MAX
    ancient = found["ancient-changes"]["f:metadata"]["f:labels"]
    assert ancient == {f"f:l{i}": {} for i in range(6)}
    assert found["a"] == {"f:spec": {"f:type": {}}}


def test_a_cleared_list_is_left_alone():
    """Until somebody applies."""
    assert note_update(service(type="A"), service(type="B"), "edit", T1) == service(type="B")


def test_filters_of_a_trigger_are_set_as_a_whole():
    """Their order means something: they are one value."""
    shape = shape_of(TRIGGER)
    wanted = {"apiVersion": "x/v1", "kind": "Trigger", "metadata": {"name": "t"}}
    wanted |= {"spec": {"filters": [{"exact": {"type": "a"}}]}}
    made = apply(None, wanted, manager="a", force=False, now=T1, schema=shape)
    assert owners(made) == {"a": {"f:spec": {"f:filters": {}}}}
