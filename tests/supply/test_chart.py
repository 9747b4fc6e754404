"""The Helm chart: what Helm makes of it, as Kubernetes and the server understand it.

Rendered by a real Helm, of this machine or built by ``scripts/helm.py``; without one those tests
are NOT RUN, and only what the files say by themselves is checked.
"""

import json
import re
import subprocess
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import jsonschema
import pytest
import yaml

import distributary
from distributary.access.tables import read_keys
from distributary.server import settings
from distributary.spark import cluster_conf
from kit import kubernetes_schema

ROOT = Path(__file__).parents[2]
CHART = ROOT / "deploy" / "helm" / "distributary"
VALUES = sorted(path.name for path in (CHART / "ci").glob("*-values.yaml"))
NAMESPACE = "shop"

_SECRET_NAME = re.compile(r"secret|passw|token|credential|(?<!service)key", re.IGNORECASE)

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def helm(script: Callable[[str], ModuleType], tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A command of Helm, without the user's own settings of it."""
    place = script("helm").found()
    if place is None:
        pytest.skip("NOT RUN: helm: none is on this machine, and `scripts/helm.py build` made none")
    home = str(tmp_path_factory.mktemp("helm"))
    names = ("HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME", "HOME")
    environ = dict.fromkeys(names, home)

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(place), *words], env=environ, check=False, capture_output=True, text=True
        )

    return run


def _rendered(helm: Run, name: str, *more: str) -> list[dict[str, Any]]:
    """The objects that Helm makes with the values *name*."""
    words = ("template", "events", str(CHART), "-n", NAMESPACE, "-f", str(CHART / "ci" / name))
    done = helm(*words, *more)
    assert done.returncode == 0, done.stderr
    return [document for document in yaml.safe_load_all(done.stdout) if document]


@pytest.fixture(scope="module", params=VALUES)
def objects(helm: Run, request: pytest.FixtureRequest) -> list[dict[str, Any]]:
    """What is made with each of the chart's files of values."""
    return _rendered(helm, request.param)


def _named(objects: list[dict[str, Any]], kind: str, name: str = "") -> dict[str, Any]:
    (found,) = (
        each
        for each in objects
        if each["kind"] == kind and each["metadata"]["name"] == f"events-distributary{name}"
    )
    return found


def _executor(objects: list[dict[str, Any]]) -> dict[str, Any]:
    text = _named(objects, "ConfigMap", "-executor")["data"]["executor.yaml"]
    template = yaml.safe_load(text)
    assert isinstance(template, dict)
    return template


def _pods(objects: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The nodes' pod and the executors'."""
    return [_named(objects, "StatefulSet")["spec"]["template"], _executor(objects)]


def _environ(objects: list[dict[str, Any]]) -> dict[str, str]:
    """What the container of the first node has in its environment, secrets as a word."""
    (container,) = _named(objects, "StatefulSet")["spec"]["template"]["spec"]["containers"]
    environ = {"POD_NAME": "events-distributary-0"}
    for row in container["env"]:
        value = row.get("value", environ.get(row["name"], "of a secret"))
        environ[row["name"]] = value.replace("$(POD_NAME)", environ["POD_NAME"])
    return environ


def _settings(objects: list[dict[str, Any]]) -> settings.Settings:
    """What the server reads: every name and value must be a setting's."""
    text = _named(objects, "ConfigMap")["data"]["distributary.toml"]
    return settings.load({}, _environ(objects), text)


def test_the_guides_values_can_be_used(helm: Run, tmp_path: Path) -> None:
    """As they stand there."""
    text = (ROOT / "docs" / "how-to" / "kubernetes.md").read_text()
    (values,) = re.findall(r"^```yaml values\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    (tmp_path / "values.yaml").write_text(values)
    chosen = _settings(_rendered(helm, str(tmp_path / "values.yaml")))
    assert chosen.retention_age_max_s == 7 * 24 * 3600
    assert read_keys(list(chosen.keys))[1] == []


@pytest.mark.parametrize("name", VALUES)
def test_helm_has_nothing_to_complain_about(helm: Run, name: str) -> None:
    """`helm lint --strict`, with each of the chart's files of values."""
    done = helm("lint", "--strict", str(CHART), "-f", str(CHART / "ci" / name))
    assert done.returncode == 0, done.stdout + done.stderr


def test_kubernetes_knows_every_member(objects: list[dict[str, Any]]) -> None:
    """By its own schemas: the pod template that Spark reads too."""
    documents = [*objects, _executor(objects)]
    assert [fault for each in documents for fault in kubernetes_schema.faults(each)] == []
    assert {each["kind"] for each in objects} == {
        *("ConfigMap", "NetworkPolicy", "PodDisruptionBudget", "Role", "RoleBinding"),
        *("Service", "ServiceAccount", "StatefulSet"),
    }


def test_faults_are_seen() -> None:
    """An unknown member, a missing one, another type, an unknown kind."""
    service = {"apiVersion": "v1", "kind": "Service", "spec": {"ports": [{"port": 80}]}}
    assert kubernetes_schema.faults(service) == []
    ports: list[Any] = [{"port": "80"}, {"name": "x"}, {"port": 80, "targetport": 1}, 80]
    service["spec"] = {"ports": ports}
    assert [fault.partition(": ")[0] for fault in kubernetes_schema.faults(service)] == [
        "Service.spec.ports.0.port",
        "Service.spec.ports.1.port",
        "Service.spec.ports.2.targetport",
        "Service.spec.ports.3",
    ]
    service["spec"] = {"ports": [{"port": 80, "target_port": 1}]}
    assert len(kubernetes_schema.faults(service)) == 1
    assert len(kubernetes_schema.faults({"apiVersion": "v1", "kind": "Thing"})) == 1


def test_the_server_understands_its_settings(objects: list[dict[str, Any]]) -> None:
    """File and environment load, and name the shared places and this node."""
    chosen = _settings(objects)
    assert chosen.log is not None
    assert chosen.log.startswith("kafka://")
    assert chosen.store is not None
    assert chosen.node_name == "events-distributary-0"
    host = "events-distributary-0.events-distributary-nodes.shop.svc"
    assert chosen.node_address == f"{host}:9418"
    assert "events-distributary.shop.svc" in chosen.allowed_hosts
    assert chosen.spark_conf["spark.driver.host"] == host
    executors = int(chosen.spark_conf["spark.executor.instances"])
    assert executors * int(chosen.spark_conf["spark.executor.cores"]) >= (chosen.partitions or 0)


def test_the_driver_takes_the_settings_of_spark(objects: list[dict[str, Any]]) -> None:
    """Its master has an address, wires are encrypted, and the image brings the package."""
    chosen = _settings(objects)
    assert re.fullmatch(r"k8s://https://[a-z.]+:443", chosen.spark_master)
    host = chosen.spark_conf["spark.driver.host"]
    conf = {**cluster_conf.cluster_conf(host), **chosen.spark_conf}
    cluster_conf.check_protection(chosen.spark_master, conf)
    assert not cluster_conf.package_wanted(conf)


def test_values_reach_the_settings(helm: Run) -> None:
    """Also those with lists, tables, numbers and marks that JSON escapes."""
    chosen = _settings(_rendered(helm, "everything-values.yaml"))
    assert (chosen.log, chosen.log_tls) == ("kafka://kafka.example.com:9093/shop.events", True)
    assert (chosen.log_sasl, chosen.log_user) == ("SCRAM-SHA-512", "distributary")
    assert (chosen.store or "").endswith("&target_session_attrs=read-write")
    assert chosen.allowed_hosts[-1] == "events.shop.example.com"
    assert (chosen.event_bytes_max, chosen.trace_sample_ratio) == (2 << 20, 0.05)
    (namespace,) = chosen.namespaces
    assert namespace == {"name": "shop", "subscriptions": 100, "event_bytes_per_s": "20 MiB"}
    assert chosen.spark_conf["spark.executor.memory"] == "1g", "the operator's own"


def test_secrets_are_references(objects: list[dict[str, Any]]) -> None:
    """No object is a Secret, and what is named like one has no value."""
    assert not [each for each in objects if each["kind"] == "Secret"]
    for pod in _pods(objects):
        for container in pod["spec"]["containers"]:
            for row in container.get("env", ()):
                if _SECRET_NAME.search(row["name"]):
                    assert "secretKeyRef" in row["valueFrom"], row["name"]
    chosen = _settings(objects)
    for name, value in chosen.spark_conf.items():
        if _SECRET_NAME.search(name):
            assert re.match(r"/|events-distributary-executor$", value), name


def test_pods_may_do_little(objects: list[dict[str, Any]]) -> None:
    """No root, no capability, nothing writable but their own volumes, no token without need."""
    for pod in _pods(objects):
        spec = pod["spec"]
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["runAsUser"] > 0
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert not {"hostNetwork", "hostPID", "hostIPC"} & set(spec)
        volumes = {each["name"]: each for each in spec["volumes"]}
        for container in spec["containers"]:
            context = container["securityContext"]
            assert context["allowPrivilegeEscalation"] is False
            assert context["readOnlyRootFilesystem"] is True
            assert context["capabilities"] == {"drop": ["ALL"]}
            for mount in container["volumeMounts"]:
                own = "emptyDir" in volumes.get(mount["name"], {"emptyDir": {}})
                assert own or mount["readOnly"], mount["name"]
    assert _executor(objects)["spec"]["automountServiceAccountToken"] is False
    (role,) = (each for each in objects if each["kind"] == "Role")
    assert {name for rule in role["rules"] for name in rule["resources"]} == {"pods", "configmaps"}
    assert not any("*" in rule["verbs"] for rule in role["rules"])


def _selected(selector: dict[str, str], pod: dict[str, Any]) -> bool:
    return selector.items() <= pod["metadata"]["labels"].items()


def test_selectors_find_the_pods(objects: list[dict[str, Any]]) -> None:
    """Services, budget and policies are for pods that are there, by the ports that they have."""
    node, executor = _pods(objects)
    ports = {port["name"]: port["containerPort"] for port in node["spec"]["containers"][0]["ports"]}
    for service in (each for each in objects if each["kind"] == "Service"):
        assert _selected(service["spec"]["selector"], node)
        assert not _selected(service["spec"]["selector"], executor)
        assert {port["targetPort"] for port in service["spec"]["ports"]} <= set(ports)
    budget = _named(objects, "PodDisruptionBudget")["spec"]
    assert _selected(budget["selector"]["matchLabels"], node)
    assert budget["maxUnavailable"] == 1
    policies = [each["spec"] for each in objects if each["kind"] == "NetworkPolicy"]
    for pod, policy in zip((node, executor), policies, strict=True):
        assert _selected(policy["podSelector"]["matchLabels"], pod)
    named = {port["port"] for rule in policies[0]["ingress"] for port in rule["ports"]}
    assert named == set(ports)
    peers = next(each for each in policies[0]["ingress"] if {"port": "peers"} in each["ports"])
    sources = [each["podSelector"]["matchLabels"] for each in peers["from"]]
    assert all(any(_selected(labels, pod) for labels in sources) for pod in (node, executor))
    chosen = _settings(objects)
    assert chosen.node_address is not None
    assert (chosen.port, chosen.health_port) == (ports["main"], ports["health"])
    assert chosen.node_address.endswith(f":{ports['peers']}")
    assert chosen.spark_conf["spark.driver.port"] == str(ports["driver"])
    assert chosen.spark_conf["spark.driver.blockManager.port"] == str(ports["blocks"])
    blocks = {"port": int(chosen.spark_conf["spark.blockManager.port"])}
    assert blocks in policies[1]["ingress"][0]["ports"]


def test_every_file_that_is_named_is_mounted(objects: list[dict[str, Any]]) -> None:
    """What settings name by a path lies below a mount of who reads it: node, executor or both."""
    chosen = _settings(objects)
    node, executor = (
        [mount["mountPath"] for mount in pod["spec"]["containers"][0]["volumeMounts"]]
        for pod in _pods(objects)
    )
    of_node = [chosen.tls_cert_file, chosen.tls_key_file, chosen.log_ca_file]
    of_node += [chosen.spark_conf["spark.kubernetes.executor.podTemplateFile"]]
    of_both = [chosen.log_ca_file, chosen.spark_conf["spark.authenticate.secret.file"]]
    for mounts, files in ((node, [*of_node, *of_both]), (executor, of_both)):
        for file in files:
            assert file is None or str(Path(file).parent) in mounts, file


def test_a_change_of_settings_restarts_the_nodes(helm: Run) -> None:
    """By an annotation; executors follow their driver."""
    checksums = []
    for more in ((), ("--set", "settings.log_level=debug"), ("--set", "spark.nodeSelector.a=b")):
        pod, _ = _pods(_rendered(helm, "minimal-values.yaml", *more))
        checksums.append(json.dumps(pod["metadata"]["annotations"]))
    assert len(set(checksums)) == 3


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("store.url=postgresql://me:secret@db/events", "store"),
        ("log.servers={kafka}", "servers"),
        ("spark.secret.name=", "spark"),
        ("credentialKeySecret.name=", "credentialKeySecret"),
        ("spark.conf.spark\\.authenticate\\.secret=s", "spark"),
        ("logs.prefix=x", "logs"),
        ("log.partitions=64", "too few"),
        ("settings.port=9000", "the chart sets it"),
    ],
)
def test_values_that_cannot_be_are_refused(helm: Run, given: str, told: str) -> None:
    """By the schema, or by the templates; with the place."""
    values = str(CHART / "ci" / "minimal-values.yaml")
    done = helm("template", "events", str(CHART), "-f", values, "--set", given)
    assert done.returncode != 0
    assert told in done.stderr


def test_what_is_said_at_the_end_fits(helm: Run) -> None:
    """The notes name what was made, and what is missing."""
    values = str(CHART / "ci" / "minimal-values.yaml")
    words = ("install", "events", str(CHART), "-n", NAMESPACE, "-f", values, "--dry-run=client")
    done = helm(*words)
    assert done.returncode == 0, done.stderr
    notes = done.stdout.partition("NOTES:")[2]
    assert "statefulset/events-distributary\n" in notes
    assert "http://events-distributary.shop.svc:80" in notes
    assert "settings.keys is empty" in notes
    more = helm(*words, "--set", "spark.slots=4").stdout.partition("NOTES:")[2]
    assert "2 executors have 8 slots. Where one ends, some of the 8 partitions wait" in more


def test_an_executor_starts_as_in_sparks_own_image(script: Callable[[str], ModuleType]) -> None:
    """The JVM's options in their order, memory, classes, and who its driver is."""
    executor = script("../packaging/docker/executor")
    environ = {
        **{f"SPARK_JAVA_OPT_{number}": f"-Dn={number}" for number in (10, 2, 0)},
        "SPARK_APPLICATION_ID": "spark-1",
        "SPARK_CONF_DIR": "/opt/spark/conf",
        "SPARK_DRIVER_URL": "spark://CoarseGrainedScheduler@node-0:7078",
        "SPARK_EXECUTOR_CORES": "8",
        "SPARK_EXECUTOR_ID": "3",
        "SPARK_EXECUTOR_MEMORY": "512m",
        "SPARK_EXECUTOR_POD_IP": "10.0.0.7",
        "SPARK_EXECUTOR_POD_NAME": "events-exec-3",
        "SPARK_RESOURCE_PROFILE_ID": "0",
    }
    words = executor.command(environ, "/usr/bin/java", Path("/jars"))
    assert words[:6] == ["/usr/bin/java", "-Dn=0", "-Dn=2", "-Dn=10", "-Xms512m", "-Xmx512m"]
    assert words[6:8] == ["-cp", "/opt/spark/conf:/jars/*"]
    told = dict(zip(words[9::2], words[10::2], strict=True))
    assert told["--driver-url"] == environ["SPARK_DRIVER_URL"]
    assert (told["--executor-id"], told["--podName"]) == ("3", "events-exec-3")
    del environ["SPARK_DRIVER_URL"]
    with pytest.raises(KeyError, match="SPARK_DRIVER_URL"):
        executor.command(environ, "/usr/bin/java", Path("/jars"))


def _files() -> Iterator[Path]:
    return (path for path in CHART.rglob("*") if path.is_file())


def test_the_chart_is_of_this_version() -> None:
    """It and the image it takes by default."""
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["version"] == chart["appVersion"] == distributary.__version__


def test_the_schema_knows_the_values() -> None:
    """Each value of the files, and each that a template asks for."""
    schema = json.loads((CHART / "values.schema.json").read_text())
    jsonschema.Draft7Validator.check_schema(schema)
    defaults = yaml.safe_load((CHART / "values.yaml").read_text())
    for name in VALUES:
        given = yaml.safe_load((CHART / "ci" / name).read_text())
        merged = _merged(defaults, given)
        errors = jsonschema.Draft7Validator(schema).iter_errors(merged)
        assert [error.message for error in errors] == []
    for path in _files():
        for found in re.findall(r"\.Values((?:\.[A-Za-z]+)+)", path.read_text()):
            value: Any = defaults
            for part in found[1:].split("."):
                if value == {}:  # what the operator says himself
                    break
                assert part in value, f"{path.name}: {found}"
                value = value[part]


def _merged(below: Any, above: Any) -> Any:
    if not isinstance(below, dict) or not isinstance(above, dict):
        return above
    return below | {key: _merged(below.get(key), value) for key, value in above.items()}


def test_what_must_be_said_is_missing_by_default() -> None:
    """The chart alone does not install: it would have no log, no state and no keys."""
    schema = json.loads((CHART / "values.schema.json").read_text())
    defaults = yaml.safe_load((CHART / "values.yaml").read_text())
    errors = jsonschema.Draft7Validator(schema).iter_errors(defaults)
    places = {".".join(map(str, error.absolute_path)) for error in errors}
    assert places == {"log.servers", "store.url", "credentialKeySecret.name", "spark.secret.name"}


def test_the_package_has_the_chart() -> None:
    """Every file of it, where the other files for operators are."""
    data = tomllib.loads((ROOT / "pyproject.toml").read_text())
    shared = data["tool"]["hatch"]["build"]["targets"]["wheel"]["shared-data"]
    assert shared["deploy/helm/distributary"] == "share/distributary/helm/distributary"
