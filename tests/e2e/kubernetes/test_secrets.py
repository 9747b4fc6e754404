"""Secrets of Triggers, from kubectl to the sink, and in no file and no answer."""

import base64
import hashlib
import hmac
import subprocess

from distributary.knative.kinds import SECRET, TRIGGER
from distributary.resource import SINKS
from kit.answering_sinks import AnsweringSink, AnsweringSinks
from kit.knative_client import KnativeClient
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


def _published(api: KnativeClient, path: str, sink: AnsweringSink) -> bool:
    """Publish an event: owners learn of the Secret a moment after its condition tells."""
    api.publish(path)
    return bool(sink.arrivals)
