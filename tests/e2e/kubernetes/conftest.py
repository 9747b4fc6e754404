"""Every kubectl that is found, and a namespace for each test."""

import importlib.util
import itertools
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from distributary.knative.kinds import NAMESPACE
from kit.answering_sinks import AnsweringSinks
from kit.knative_client import KnativeClient
from kit.running_server import RunningServer, clean_environ

ROOT = Path(__file__).parents[3]
_CLI = (sys.executable, "-m", "distributary.cli")

_numbers = itertools.count(1)


def _script() -> ModuleType:
    """scripts/kubectl.py, as a module."""
    spec = importlib.util.spec_from_file_location("kubectl", ROOT / "scripts" / "kubectl.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SCRIPT = _script()

COMMAND_S_MAX = 60.0
"""Longest wait for one command: longer means that it hangs."""

SHOP = """\
apiVersion: v1
kind: Service
metadata:
  name: books
  annotations: {distributary.dev/address: "127.0.0.1:1"}
spec:
  ports: [{port: 80}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: tuning}
data: {size: "1"}
---
apiVersion: eventing.knative.dev/v1
kind: Broker
metadata: {name: shop, labels: {team: red}}
spec:
  config: {apiVersion: v1, kind: ConfigMap, name: tuning}
---
apiVersion: eventing.knative.dev/v1
kind: Trigger
metadata: {name: orders, labels: {team: red}}
spec:
  broker: shop
  filter: {attributes: {type: order}}
  subscriber:
    ref: {apiVersion: v1, kind: Service, name: books}
    uri: /orders
---
apiVersion: messaging.knative.dev/v1
kind: Channel
metadata: {name: parcels}
---
apiVersion: messaging.knative.dev/v1
kind: Subscription
metadata: {name: carrier}
spec:
  channel: {apiVersion: messaging.knative.dev/v1, kind: Channel, name: parcels}
  subscriber: {uri: "http://127.0.0.1:1/carrier"}
"""
"""An object of every kind that people write; nothing is sent to them."""


class Kubectl:
    """One kubectl in one namespace.

    Attributes:
        namespace: Where it works; there is nothing in it at first.
        program: Which one.
        minor: Its version: 20 for 1.20.
        folder: For files of the test.
        api: The same namespace without kubectl.
    """

    def __init__(
        self, program: Path, minor: int, home: Path, api: KnativeClient, folder: Path
    ) -> None:
        self.api = api
        self.namespace = api.namespace
        self.program = program
        self.minor = minor
        self.folder = folder
        self._command = [str(program), "--namespace", api.namespace]
        self._environ = {**os.environ, "HOME": str(home), "KUBECONFIG": str(home / "kubeconfig")}

    def run(self, *words: str, text: str | None = None, **environ: str):
        """One command to its end, however that is."""
        return subprocess.run(
            [*self._command, *words],
            input=text,
            capture_output=True,
            text=True,
            check=False,
            cwd=self.folder,
            env={**self._environ, **environ},
            timeout=COMMAND_S_MAX,
        )

    def __call__(self, *words: str, text: str | None = None, **environ: str) -> str:
        """What a command prints that succeeds."""
        done = self.run(*words, text=text, **environ)
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        return done.stdout

    def refused(self, *words: str, text: str | None = None, **environ: str) -> str:
        """What a command says that fails."""
        done = self.run(*words, text=text, **environ)
        assert done.returncode != 0, (words, done.stdout)
        return done.stderr

    def begin(self, *words: str, stderr: int | None = None) -> "subprocess.Popen[str]":
        """A command that goes on."""
        return subprocess.Popen(
            [*self._command, *words],
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            cwd=self.folder,
            env=self._environ,
        )

    def apply(self, text: str, *words: str) -> str:
        """What applying these objects prints."""
        return self("apply", *words, "-f", "-", text=text)

    def ready(self, *names: str) -> None:
        """Wait until these are Ready."""
        self("wait", "--for=condition=Ready", "--timeout=60s", *names)

    def field(self, name: str, path: str) -> str:
        """A field of an object, as text."""
        return self("get", name, "-o", f"jsonpath={{{path}}}")


@pytest.hookimpl(tryfirst=True)  # before those of the soak are left out
def pytest_collection_modifyitems(items):
    """The guide's session is for people, who have a current kubectl: the gate runs it with that."""
    if "current" not in SCRIPT.found():
        return
    for item in items:
        if item.path.name == "test_how_to.py" and item.callspec.params["kubectl"] != "current":
            item.add_marker(pytest.mark.soak)


@pytest.fixture(scope="session")
def server(shared_server: RunningServer) -> RunningServer:
    """The one that other tests use too."""
    return shared_server


@pytest.fixture(scope="session")
def sinks() -> Iterator[AnsweringSinks]:
    """Sinks of all tests."""
    with AnsweringSinks() as sinks:
        yield sinks


@pytest.fixture(scope="session")
def kubeconfig(server: RunningServer, tmp_path_factory) -> Path:
    """What ``distributary kubeconfig`` prints, in a home without anything else."""
    command = [*_CLI, "kubeconfig", "--server", server.url]
    printed = subprocess.run(command, capture_output=True, check=True, env=clean_environ()).stdout
    place = tmp_path_factory.mktemp("home") / "kubeconfig"
    place.write_bytes(printed)
    return place


@pytest.fixture
def api(server: RunningServer) -> Iterator[KnativeClient]:
    """A namespace that is there for one test."""
    client = KnativeClient(server, f"k{next(_numbers)}")
    yield client
    client.send("DELETE", client.path(NAMESPACE, client.namespace))


@pytest.fixture(scope="session")
def kubectls() -> dict[str, tuple[Path, int]]:
    """The kubectls that are here, with the second part of their versions."""
    return {
        name: (place, int(SCRIPT.version(place).split(".")[1]))
        for name, place in SCRIPT.found().items()
    }


@pytest.fixture(params=SCRIPT.NAMES)
def kubectl(request, kubectls, kubeconfig: Path, api: KnativeClient, tmp_path: Path) -> Kubectl:
    """Each kubectl, in a namespace of its own."""
    if request.param not in kubectls:
        pytest.skip(f"no {request.param} kubectl is here: scripts/kubectl.py fetches it")
    program, minor = kubectls[request.param]
    return Kubectl(program, minor, kubeconfig.parent, api, tmp_path)


@pytest.fixture
def shop(kubectl: Kubectl) -> Kubectl:
    """The same, with objects of every kind that are Ready, and ``shop.yaml`` where it works."""
    (kubectl.folder / "shop.yaml").write_text(SHOP)
    kubectl("apply", "-f", "shop.yaml")
    kubectl.ready("broker/shop", "trigger/orders", "channel/parcels", "subscription/carrier")
    return kubectl
