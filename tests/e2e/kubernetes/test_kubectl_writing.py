"""kubectl writes: apply in both ways, patches, edits, labels, replacements, deletions."""

import json

import pytest

from distributary.knative.kinds import TRIGGER

pytestmark = [pytest.mark.spark, pytest.mark.slow]

TYPE = ".spec.filter.attributes.type"

APPLIED = """\
apiVersion: eventing.knative.dev/v1
kind: Trigger
metadata: {{name: orders}}
spec:
  broker: shop
  filter: {{attributes: {{type: {type}}}}}
  subscriber: {{uri: "http://127.0.0.1:1/orders"}}
"""
"""For server-side apply, which needs no more than what it is about."""


def test_what_is_applied_again_stays_as_it_is(shop):
    """A file of every kind, applied twice, then changed; what it leaves out goes."""
    again = shop("apply", "-f", "shop.yaml").splitlines()
    assert len(again) == 6
    assert all(line.endswith(" unchanged") for line in again)
    bare = APPLIED.format(type="refund")
    assert shop.apply(bare) == "trigger.eventing.knative.dev/orders configured\n"
    assert shop.field("trigger/orders", TYPE) == "refund"
    assert "team" not in shop.field("trigger/orders", ".metadata.labels")
    assert "unchanged" in shop.apply(bare)
    assert shop.field("trigger/orders", ".metadata.generation") == "2"
    shop.ready("trigger/orders")


def test_a_dry_run_changes_nothing(shop):
    """Neither that of kubectl nor that of the server."""
    before = shop.field("trigger/orders", ".metadata.resourceVersion")
    for where in ("client", "server"):
        assert "dry run" in shop.apply(APPLIED.format(type="refund"), f"--dry-run={where}")
    assert shop.field("trigger/orders", ".metadata.resourceVersion") == before


def test_patches_of_each_type_change_what_they_name(shop):
    """JSON patch and merge patch everywhere, strategic merge for Service and ConfigMap."""
    operations = [{"op": "replace", "path": "/spec/filter/attributes/type", "value": "refund"}]
    shop("patch", "trigger/orders", "--type=json", "-p", json.dumps(operations))
    assert shop.field("trigger/orders", TYPE) == "refund"
    merge = {"spec": {"filter": {"attributes": {"type": None, "source": "/till"}}}}
    shop("patch", "trigger/orders", "--type=merge", "-p", json.dumps(merge))
    attributes = json.loads(shop.field("trigger/orders", ".spec.filter.attributes"))
    assert attributes == {"source": "/till"}
    ports = {"spec": {"ports": [{"port": 80, "name": "web"}, {"port": 81, "name": "more"}]}}
    shop("patch", "service/books", "-p", json.dumps(ports))
    shop("patch", "service/books", "-p", '{"spec":{"ports":[{"port":82,"name":"last"}]}}')
    numbers = shop.field("service/books", ".spec.ports[*].port").split()
    assert sorted(numbers) == ["80", "81", "82"]
    shop("patch", "configmap/tuning", "--type=strategic", "-p", '{"data":{"colour":"red"}}')
    assert json.loads(shop.field("configmap/tuning", ".data")) == {"size": "1", "colour": "red"}
    shop("patch", "ns", shop.namespace, "-p", '{"metadata":{"labels":{"team":"red"}}}')


def test_edits_labels_and_annotations_are_kept(shop):
    """What an editor saves, and what is set by name."""
    editor = "sed -i s/type:.order/type:\\ refund/"
    assert "edited" in shop("edit", "trigger/orders", KUBE_EDITOR=editor)
    assert shop.field("trigger/orders", TYPE) == "refund"
    shop("label", "trigger/orders", "team=blue", "--overwrite")
    shop("label", "triggers", "--all", "tier=gold")
    shop("annotate", "trigger/orders", "note=by hand")
    assert shop.field("trigger/orders", ".metadata.annotations.note") == "by hand"
    assert "orders" in shop("get", "triggers", "-l", "team=blue,tier=gold")
    shop("label", "trigger/orders", "tier-")
    assert shop("get", "triggers", "-l", "tier", "-o", "name") == ""


def test_a_replacement_needs_the_newest_version(shop):
    """An object that was changed meanwhile is not overwritten."""
    whole = json.loads(shop("get", "trigger/orders", "-o", "json"))
    whole["spec"]["filter"] = {"attributes": {"type": "refund"}}
    shop("replace", "-f", "-", text=json.dumps(whole))
    assert shop.field("trigger/orders", TYPE) == "refund"
    late = shop.refused("replace", "-f", "-", text=json.dumps(whole))
    assert "the object has been modified" in late
    del whole["metadata"]["resourceVersion"]
    shop("replace", "-f", "-", text=json.dumps(whole))
    before = shop.field("trigger/orders", ".metadata.uid")
    shop("replace", "--force", "-f", "-", text=json.dumps(whole))
    assert shop.field("trigger/orders", ".metadata.uid") != before


def test_server_side_apply_keeps_apart_who_owns_what(shop):
    """Another manager's field is a conflict that names it, until it is taken by force."""
    shop("delete", "trigger/orders")
    assert "serverside-applied" in shop.apply(APPLIED.format(type="order"), "--server-side")
    other = ("--server-side", "--field-manager=other")
    refused = shop.refused("apply", *other, "-f", "-", text=APPLIED.format(type="refund"))
    assert "1 conflict" in refused
    assert 'conflict with "kubectl"' in refused
    assert ".spec.filter.attributes.type" in refused
    assert shop.field("trigger/orders", TYPE) == "order"
    shop.apply(APPLIED.format(type="refund"), *other, "--force-conflicts")
    assert shop.field("trigger/orders", TYPE) == "refund"
    whole = json.loads(shop.api.send("GET", shop.api.path(TRIGGER, "orders")).body)
    managers = {each["manager"]: each["operation"] for each in whole["metadata"]["managedFields"]}
    assert managers == {"kubectl": "Apply", "other": "Apply"}
    shop.ready("trigger/orders")


def test_diff_shows_what_apply_would_change(shop):
    """Exit code 1 with the change, 0 without one."""
    assert shop("diff", "-f", "shop.yaml") == ""
    changed = shop.run("diff", "-f", "-", text=APPLIED.format(type="refund"))
    assert changed.returncode == 1
    assert "-      type: order\n+      type: refund\n" in changed.stdout
    assert shop.field("trigger/orders", TYPE) == "order"


def test_objects_are_created_by_name(kubectl):
    """What kubectl makes objects of by itself."""
    kubectl("create", "configmap", "colours", "--from-literal=first=red")
    kubectl("create", "service", "externalname", "books", "--external-name=books.example.com")
    kubectl("create", "namespace", f"{kubectl.namespace}-more")
    assert kubectl.field("configmap/colours", ".data.first") == "red"
    assert "books.example.com" in kubectl("get", "services")
    assert "deleted" in kubectl("delete", "namespace", f"{kubectl.namespace}-more")
    generated = "apiVersion: v1\nkind: ConfigMap\nmetadata: {generateName: tuning-}\n"
    assert kubectl("create", "-f", "-", "-o", "name", text=generated).startswith(
        "configmap/tuning-"
    )


def test_deletions_name_what_is_gone(shop):
    """By name, by label, by file, all; what is gone already is said or passed over."""
    shop("delete", "triggers", "-l", "team=red")
    assert shop("get", "triggers", "-o", "name") == ""
    assert "broker" in shop("delete", "broker/shop")
    assert len(shop("delete", "-f", "shop.yaml", "--ignore-not-found").splitlines()) == 4
    assert "not found" in shop.refused("delete", "-f", "shop.yaml")
    assert shop("delete", "-f", "shop.yaml", "--ignore-not-found") == ""
    assert "not found" in shop.refused("delete", "trigger", "orders")
    shop("apply", "-f", "shop.yaml")
    shop("delete", "brokers,triggers,channels,subscriptions,services,configmaps", "--all")
    assert shop("get", "all,configmaps", "-o", "name") == ""


def test_a_namespace_takes_what_is_in_it_along(shop):
    """And is gone when kubectl is done."""
    shop("delete", "namespace", shop.namespace, "--timeout=60s")
    assert "not found" in shop.refused("get", "namespace", shop.namespace)
    assert shop("get", "all,configmaps", "-o", "name") == ""
