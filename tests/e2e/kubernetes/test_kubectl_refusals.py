"""What kubectl says of bad input: every fault with its field, and nothing changed."""

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.slow]

STRICT_MINOR_MIN = 25
"""From here on kubectl leaves the search for unknown fields to the server."""

UNKNOWN = """\
apiVersion: eventing.knative.dev/v1
kind: Trigger
metadata: {name: misspelt}
spec:
  broker: shop
  filtr: {attributes: {type: order}}
  subscriber: {uri: "http://127.0.0.1:1/"}
"""

FAULTY = """\
apiVersion: eventing.knative.dev/v1
kind: Trigger
metadata: {name: Bad_Name, labels: {"no label": x}}
spec:
  filter: {attributes: {Source: a}}
  filters: [{cesql: "type ="}]
  subscriber: {}
  delivery: {backoffPolicy: quadratic, backoffDelay: soon, retry: -1}
"""


def _config_map(size: int) -> str:
    data = f'data: {{large: "{"x" * size}"}}\n'
    return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: large}\n" + data


def test_a_misspelt_field_is_refused_or_warned_of(shop):
    """As the user says how strict it is to be."""
    for words in (("create",), ("create", "--validate=true"), ("apply",)):
        said = shop.refused(*words, "-f", "-", text=UNKNOWN)
        assert "unknown field" in said
        assert "filtr" in said
    if shop.minor >= STRICT_MINOR_MIN:
        warned = shop.run("create", "--validate=warn", "-f", "-", text=UNKNOWN)
    else:
        warned = shop.run("create", "--validate=false", "-f", "-", text=UNKNOWN)
    assert warned.returncode == 0
    assert 'unknown field "spec.filtr"' in warned.stderr
    assert shop.field("trigger/misspelt", ".spec.filtr") == ""


def test_every_fault_of_an_object_is_named_at_once(shop):
    """Names, labels, filters, delivery, what is missing."""
    # Debian's kubectl looks for itself first, and stops there.
    said = shop.refused("create", "--validate=false", "-f", "-", text=FAULTY)
    assert 'The Trigger "Bad_Name" is invalid' in said
    for field in (
        *("metadata.name", "metadata.labels", "spec.broker", "spec.subscriber"),
        *("spec.filter.attributes[Source]", "spec.filters[0].cesql"),
        *("spec.delivery.backoffPolicy", "spec.delivery.backoffDelay", "spec.delivery.retry"),
    ):
        assert f"* {field}: " in said
    assert shop("get", "triggers", "-o", "name") == "trigger.eventing.knative.dev/orders\n"


def test_kinds_that_are_not_served_are_refused(kubectl):
    """Other groups, other versions, no kind at all."""
    meta = "metadata: {name: x}\n"
    for head in ("apiVersion: apps/v1\nkind: Deployment\n", "apiVersion: v1\nkind: Pod\n"):
        assert "no matches for kind" in kubectl.refused("create", "-f", "-", text=head + meta)
    old = "apiVersion: eventing.knative.dev/v1beta1\nkind: Trigger\n"
    assert "no matches for kind" in kubectl.refused("create", "-f", "-", text=old + meta)
    assert kubectl.refused("create", "-f", "-", text=meta) != ""


def test_what_cannot_be_changed_is_named(shop):
    """Immutable fields of all kinds: 422 with the field."""
    broker_class = "metadata.annotations[eventing.knative.dev/broker.class]"
    for name, patch, field in (
        ("trigger/orders", '{"spec":{"broker":"other"}}', "spec.broker"),
        ("broker/shop", '{"spec":{"config":{"name":"other"}}}', "spec.config"),
        (
            "broker/shop",
            '{"metadata":{"annotations":{"eventing.knative.dev/broker.class":"Other"}}}',
            broker_class,
        ),
        ("subscription/carrier", '{"spec":{"channel":{"name":"other"}}}', "spec.channel"),
    ):
        said = shop.refused("patch", name, "--type=merge", "-p", patch)
        assert f"is invalid: {field}: " in said
        assert "immutable" in said
    editor = "sed -i s/broker:.shop/broker:\\ other/"
    # The copy of the failed edit is left in its folder for temporary files.
    environ = {"KUBE_EDITOR": editor, "TMPDIR": str(shop.folder)}
    assert "no valid changes were saved" in shop.refused("edit", "trigger/orders", **environ)
    assert shop.field("trigger/orders", ".spec.broker") == "shop"


def test_patches_that_do_not_apply_are_refused(shop):
    """Missing places, failed tests, bodies that are no patch, types that a kind does not take."""
    for type_, patch, said in (
        ("json", '[{"op":"remove","path":"/spec/nothing"}]', "spec.nothing"),
        ("json", '[{"op":"test","path":"/spec/broker","value":"x"}]', "spec.broker"),
        ("json", '[{"op":"shuffle","path":"/spec"}]', "op"),
        ("json", '{"op":"remove"}', ""),
        ("merge", '{"spec":', ""),
        ("merge", '["spec"]', ""),
        ("merge", '{"spec":{"filter":{"attributes":{"Type":"x"}}}}', "attributes[Type]"),
        ("strategic", '{"spec":{"broker":"shop"}}', "application/merge-patch+json"),
    ):
        assert said in shop.refused("patch", "trigger/orders", f"--type={type_}", "-p", patch)
    assert shop.field("trigger/orders", ".metadata.generation") == "1"


def test_objects_may_be_large_but_not_too_large(kubectl):
    """Almost 1 MiB is kept, more is 413; annotations of `apply` have a limit of their own."""
    kubectl("create", "-f", "-", text=_config_map(1_000_000))
    assert len(kubectl.field("configmap/large", ".data.large")) == 1_000_000
    kubectl("delete", "configmap/large")
    assert "large" in kubectl.refused("create", "-f", "-", text=_config_map(1_100_000))
    assert "Too long" in kubectl.refused("apply", "-f", "-", text=_config_map(300_000))
    kubectl.apply(_config_map(300_000), "--server-side")
    assert "NotFound" not in kubectl("get", "configmap/large")


def test_a_moment_that_is_forgotten_is_gone(shop):
    """Lists of it are 410, and a page token that is none is refused."""
    triggers = "/apis/eventing.knative.dev/v1/triggers"
    said = shop.refused("get", "--raw", f"{triggers}?resourceVersion=1&resourceVersionMatch=Exact")
    assert "too old resource version" in said
    assert "continue" in shop.refused("get", "--raw", f"{triggers}?limit=1&continue=none")


def test_what_is_there_already_is_a_conflict(shop):
    """A second `create` changes nothing."""
    text = UNKNOWN.replace("misspelt", "orders").replace("filtr", "filter")
    said = shop.refused("create", "-f", "-", text=text)
    assert "AlreadyExists" in said
    assert shop.field("trigger/orders", ".spec.subscriber.uri") == "/orders"
