"""Secrets of Triggers, from kubectl to the sink, and in no file and no answer."""

import base64
import hashlib
import hmac
import json
import ssl
import subprocess
import textwrap

from distributary.knative.kinds import SECRET, TRIGGER
from distributary.resource import SINKS
from kit.answering_sinks import AnsweringSink, AnsweringSinks
from kit.certificates import Authority, write_pair
from kit.knative_client import KnativeClient, condition
from kit.running_server import wait_until

TOKEN = "canary-of-kubectl"
KEY = b"canary-of-thirty-two-bytes......"


def test_a_secret_of_kubectl_reaches_the_sink_alone(kubectl, sinks: AnsweringSinks) -> None:
    """As its credential and its signature; reading shows keys without values."""
    api: KnativeClient = kubectl.api
    sink = sinks.sink(f"/{api.namespace}-secret")
    signing = "whsec_" + base64.b64encode(KEY).decode()
    kubectl("create", "secret", "generic", "crm", f"--from-literal=token={TOKEN}")
    kubectl("create", "secret", "generic", "hook", f"--from-literal=secret={signing}")
    path = api.broker()
    names = {"sink-credential": "crm", "signature": "hook"}
    annotations = {f"distributary.dev/{name}": text for name, text in names.items()}
    spec = {"broker": "b", "subscriber": {"uri": sink.url}}
    api.create(TRIGGER, "t", spec, annotations=annotations)
    api.wait_condition(TRIGGER, "t", "False", "SecretsResolved")
    refused = api.merge(SECRET, "crm", {"metadata": {"annotations": {SINKS: sink.url}}})
    assert refused.status == 422  # whoever lets it go to a sink must have it
    assert "send the values of token again" in refused.json()["message"]
    for name, key, value in (("crm", "token", TOKEN), ("hook", "secret", signing)):
        patch = {"metadata": {"annotations": {SINKS: sink.url}}, "stringData": {key: value}}
        answer = api.merge(SECRET, name, patch)
        assert (answer.status, answer.json()["data"]) == (200, {key: ""})
    api.wait_condition(TRIGGER, "t", "True", "SecretsResolved")
    wait_until(lambda: _published(api, path, sink), 60.0, "an event with the credential")
    request = sink.arrivals[0]
    assert request.headers["authorization"] == f"Bearer {TOKEN}"
    signed = ".".join((request.headers["webhook-id"], request.headers["webhook-timestamp"], ""))
    digest = hmac.new(KEY, signed.encode() + request.body, hashlib.sha256).digest()
    wanted = "v1," + base64.b64encode(digest).decode()
    assert request.headers["webhook-signature"] == wanted
    shown = kubectl("get", "secret", "crm", "hook", "-o", "yaml")
    command = ["grep", "-rlaE", f"{TOKEN}|{signing}", api.server.data_dir, api.server.log]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (found.stdout, TOKEN in shown, signing in shown) == ("", False, False)


SUBSCRIBER = """\
apiVersion: eventing.knative.dev/v1
kind: Trigger
metadata:
  name: t
  annotations: {{distributary.dev/sink-credential: crm}}
spec:
  broker: b
  subscriber:
    uri: {uri}
    CACerts: |
{certificates}
"""


def test_a_subscriber_with_certificates_gets_a_secret_that_has_them(kubectl, tmp_path) -> None:
    """Until then nothing is sent; kubectl shows why, and what is done about it holds at once."""
    api: KnativeClient = kubectl.api
    authority = Authority()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*write_pair(tmp_path, "sink", authority.server("127.0.0.1")))
    certificates = authority.pem.decode()
    with AnsweringSinks(context) as secure:
        sink = secure.sink("/secure")
        path = api.broker()
        _keep(kubectl, sink, token="")
        indented = textwrap.indent(certificates, " " * 6)
        kubectl.apply(SUBSCRIBER.format(uri=sink.url, certificates=indented))
        _wait_reason(api, "SecretNotForCACerts")
        told = kubectl.field(
            "trigger/t", ".status.conditions[?(@.type=='SecretsResolved')].message"
        )
        assert 'not under the key "caCerts" of the Secret "crm": write them there' in told
        _keep(kubectl, sink, token="", caCerts=certificates)
        _wait_reason(api, "SecretUnusable")
        api.publish(path)
        same = api.merge(SECRET, "crm", {"stringData": {"caCerts": certificates * 2}})
        assert same.status == 200  # twice is no more than once
        _keep(kubectl, sink, token=TOKEN, caCerts=certificates)
        api.wait_condition(TRIGGER, "t", "True", "SecretsResolved")
        other = {"stringData": {"caCerts": Authority().pem.decode()}}
        refused = api.merge(SECRET, "crm", other)
        assert refused.status == 422
        assert "send the values of token again" in refused.json()["message"]
        (request,) = sink.wait()
    assert request.headers["authorization"] == f"Bearer {TOKEN}"


def _keep(kubectl, sink: AnsweringSink, **values: str) -> None:
    """Apply the Secret ``crm`` for *sink*."""
    metadata = {"name": "crm", "annotations": {SINKS: sink.url}}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": values}
    kubectl.apply(json.dumps(secret))


def _wait_reason(api: KnativeClient, reason: str) -> None:
    """Wait until the Trigger is not ready for *reason*."""
    api.wait(TRIGGER, "t", lambda obj: condition(obj, "SecretsResolved").get("reason") == reason)


def _published(api: KnativeClient, path: str, sink: AnsweringSink) -> bool:
    """Publish an event: owners learn of the Secret a moment after its condition tells."""
    api.publish(path)
    return bool(sink.arrivals)
