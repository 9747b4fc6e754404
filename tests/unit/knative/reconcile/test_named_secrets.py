"""Secrets that Triggers and messaging Subscriptions name: what their condition says."""

import base64

import pytest

from distributary.knative.apiserver.machinery import Key
from kit.certificates import Authority

SIGNING = "whsec_" + base64.b64encode(bytes(32)).decode()
SECURE = "https://a.example/"
OURS, THEIRS = (Authority(name).pem.decode() for name in ("Ours", "Theirs"))


def named(world, use="sink-credential", **subscriber):
    """Apply the Trigger ``t``, whose subscriber is to get something of the Secret ``s``."""
    spec = {"broker": "default", "subscriber": subscriber or world.to()}
    return world.apply("Trigger", "t", spec, annotations={f"distributary.dev/{use}": "s"})


def said(world, kind="Trigger", name="t"):
    """Status, reason and message of the condition now."""
    conditions = world.get(kind, name)["status"]["conditions"]
    (found,) = (each for each in conditions if each["type"] == "SecretsResolved")
    return found["status"], found.get("reason", ""), found.get("message", "")


def test_a_secret_names_the_address_of_a_service_too(world):
    """Whoever may write the Service does not get what another has put into a Secret."""
    address = {"distributary.dev/address": "127.0.0.1:9001"}
    world.apply("Service", "crm", {}, annotations=address)
    uri = "http://crm.default.svc/"
    world.secret("s", uri, token="t")
    ref = {"apiVersion": "v1", "kind": "Service", "name": "crm"}
    spec = {"broker": "default", "subscriber": {"ref": ref}}
    world.apply("Trigger", "t", spec, annotations={"distributary.dev/sink-credential": "s"})
    found = world.get("Trigger", "t")
    assert world.condition(found, "SecretsResolved") == ("False", "SecretNotForSink")
    assert "does not name http://127.0.0.1:9001, where the sink is reached" in str(found)
    world.secret("s", f"{uri} http://127.0.0.1:9001", token="t")
    found = world.get("Trigger", "t")
    assert world.condition(found, "SecretsResolved") == ("True", "")
    address["distributary.dev/address"] = "127.0.0.1:9002"
    world.apply("Service", "crm", {}, annotations=address)
    found = world.get("Trigger", "t")
    assert world.condition(found, "SecretsResolved") == ("False", "SecretNotForSink")


def test_a_trigger_says_whether_its_secrets_are_there(world):
    """Its route stands and names them; events wait where they are not for the sink."""
    names = {"distributary.dev/sink-credential": "s", "distributary.dev/signature": "k"}
    spec = {"broker": "default", "subscriber": world.to()}
    made = world.apply("Trigger", "t", spec, annotations=names)
    assert world.condition(made, "SecretsResolved") == ("False", "SecretNotFound")
    settings = world.settings(made)
    assert (settings.credential, settings.signature) == ("s", "k")
    world.secret("s", "http://other.example/")
    world.secret("k", secret=SIGNING)
    found = world.get("Trigger", "t")
    assert world.condition(found, "SecretsResolved") == ("False", "SecretNotForSink")
    world.secret("s", token="t")
    found = world.get("Trigger", "t")
    assert world.condition(found, "SecretsResolved") == ("True", "")
    plain = world.apply("Trigger", "plain", spec)
    assert "SecretsResolved" not in {each["type"] for each in plain["status"]["conditions"]}


CREDENTIAL = 'has neither the key "token" nor both keys "username" and "password"'


@pytest.mark.parametrize(
    ("use", "lacking", "message", "enough"),
    [
        ("sink-credential", (), CREDENTIAL, ("token",)),
        ("sink-credential", ("Token",), CREDENTIAL, ("Token", "token")),
        ("sink-credential", ("username", "secret"), CREDENTIAL, ("username", "password")),
        ("signature", ("token",), 'has no key "secret"', ("token", "secret")),
        ("signature", (), 'has no key "secret"', ("previous",)),
    ],
)
def test_a_trigger_says_which_key_its_secret_lacks(world, use, lacking, message, enough):
    """It is not ready, since nothing can be sent; a key that is added is seen at once."""
    world.secret("s", **dict.fromkeys(lacking, "canary"))
    spec = {"broker": "default", "subscriber": world.to()}
    made = world.apply("Trigger", "t", spec, annotations={f"distributary.dev/{use}": "s"})
    assert world.condition(made, "SecretsResolved") == ("False", "SecretUnusable")
    assert world.ready(made) == "False"
    assert f'the Secret "s" {message}' in str(made["status"])
    world.secret("s", **dict.fromkeys(enough, SIGNING))
    found = world.get("Trigger", "t")
    assert world.condition(found, "SecretsResolved") == ("True", "")
    assert world.ready(found) == "True"
    world.secret("s", **dict.fromkeys(lacking, "canary"))
    assert world.ready(world.get("Trigger", "t")) == "False"


def test_what_a_secret_lacks_is_not_told_of_one_for_other_sinks(world):
    """Whoever writes Triggers learns nothing of the keys of Secrets that are not for them."""
    world.secret("s", "http://other.example/", other="canary")
    spec = {"broker": "default", "subscriber": world.to()}
    notes = {"distributary.dev/sink-credential": "s"}
    made = world.apply("Trigger", "t", spec, annotations=notes)
    assert world.condition(made, "SecretsResolved") == ("False", "SecretNotForSink")


@pytest.mark.parametrize(
    ("use", "bad", "message", "good"),
    [
        (
            "sink-credential",
            {"token": ""},
            'key "token" of the Secret "s" is empty',
            {"token": "t"},
        ),
        (
            "sink-credential",
            {"username": "canary:", "password": "p"},
            'key "username" of the Secret "s" cannot be used: expected UTF-8 without a colon',
            {"username": "me", "password": "p"},
        ),
        (
            "signature",
            {"secret": "canary"},
            'key "secret" of the Secret "s" cannot be used: expected whsec_ and Base64',
            {"secret": SIGNING},
        ),
    ],
    ids=["empty token", "account", "signing key"],
)
def test_a_trigger_says_which_value_cannot_be_used(world, use, bad, message, good):
    """With the form that is wanted and no value; another value under the same key is seen."""
    world.secret("s", **bad)
    named(world, use)
    status, reason, text = said(world)
    assert (status, reason) == ("False", "SecretUnusable")
    assert message in text
    assert "canary" not in text
    assert world.ready(world.get("Trigger", "t")) == "False"
    world.secret("s", **good)
    assert said(world)[:2] == ("True", "")
    world.restart()
    world.settle()
    assert said(world)[:2] == ("True", "")
    world.secret("s", **{key: value or "canary canary " for key, value in bad.items()})
    assert said(world)[:2] == ("False", "SecretUnusable")


def test_a_subscriber_with_certificates_needs_a_secret_that_has_them(world):
    """Who writes Triggers does not choose whom a Secret is shown to by certificates of his own."""
    world.secret("s", SECURE, token="canary")
    named(world, uri=SECURE)
    assert said(world)[0] == "True"
    named(world, uri=SECURE, CACerts=OURS)
    status, reason, text = said(world)
    assert (status, reason) == ("False", "SecretNotForCACerts")
    assert 'under the key "caCerts" of the Secret "s": write them there' in text
    world.secret("s", SECURE, token="canary", caCerts=f"ours:\n{OURS}")
    assert said(world)[0] == "True"
    named(world, uri=SECURE, CACerts=THEIRS)
    assert said(world)[:2] == ("False", "SecretNotForCACerts")
    world.secret("s", SECURE, token="canary", caCerts="no certificates")
    assert said(world)[:2] == ("False", "SecretUnusable")


def test_a_messaging_subscription_says_so_too(world):
    """It follows the same rule."""
    world.apply("Channel", "c", {})
    world.secret("s", SECURE, secret=SIGNING)
    channel = {"apiVersion": "messaging.knative.dev/v1", "kind": "Channel", "name": "c"}
    spec = {"channel": channel, "subscriber": {"uri": SECURE, "CACerts": OURS}}
    notes = {"distributary.dev/signature": "s"}
    world.apply("Subscription", "t", spec, annotations=notes)
    assert said(world, "Subscription")[:2] == ("False", "SecretNotForCACerts")
    world.secret("s", SECURE, secret=SIGNING, caCerts=OURS)
    assert said(world, "Subscription")[0] == "True"


def test_a_subscriber_with_tls_by_bundles_of_the_operator_needs_none(world):
    """They are nobody's own."""
    key = world.kinds["ConfigMap"].resource
    labels = {"networking.knative.dev/trust-bundle": "true"}
    made = {"metadata": {"name": "b", "labels": labels}, "data": {"pem": OURS}}
    world.runner.run(world.objects.put(Key(key, "knative-eventing", "b"), lambda _before: made))
    world.secret("s", SECURE, token="canary")
    made = named(world, uri=SECURE)
    assert world.settings(made).sink.trusted.strip() == OURS.strip()
    assert said(world)[0] == "True"


def test_values_that_cannot_be_opened_are_told_without_saying_where_keys_are(world):
    """The key file is another one since: nothing can be sent."""
    world.secret("s", token="canary")
    named(world)
    world.stop()
    path = world.folder / "credentials.key"
    path.write_text(base64.b64encode(bytes(32)).decode())
    world.start()
    world.settle()
    status, reason, text = said(world)
    assert (status, reason) == ("False", "SecretUnusable")
    assert text == 'the values of the Secret "s" cannot be opened: send them again'
