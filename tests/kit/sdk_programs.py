"""Programs that publish and receive with the official SDKs, made of the code in the guide.

Caller: ``tests/e2e/test_sdks.py``. An SDK is fetched once, by the package client of its language;
where its tools or the SDK cannot be had, the test ends as NOT RUN.
"""

import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from kit.languages import CACHE, build, fetch, tool

GUIDE: Final = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "use-an-sdk.md"
NODE_SDK: Final = "cloudevents@10.0.0"
GO_SDK: Final = "github.com/cloudevents/sdk-go/v2 v2.16.2"
JAVA_SDK: Final = "4.0.1"

_BLOCK: Final = re.compile(
    r"^```\w+ run-sdk\n((?:#|//) (\w+\.\w+)[^\n]*\n.*?)^```$", re.MULTILINE | re.DOTALL
)
_POM: Final = """<project><modelVersion>4.0.0</modelVersion>
<groupId>x</groupId><artifactId>x</artifactId><version>1</version><dependencies>{}</dependencies>
</project>"""
_DEPENDENCY: Final = (
    "<dependency><groupId>io.cloudevents</groupId><artifactId>{}</artifactId>"
    f"<version>{JAVA_SDK}</version></dependency>"
)


class Programs(NamedTuple):
    """Commands; an argument follows.

    Attributes:
        publish: Publishes one event at the server whose URL follows; prints the status.
        receive: Serves at the port that follows; prints a line of JSON for each event.
    """

    publish: list[str]
    receive: list[str]


def code() -> dict[str, str]:
    """The programs of the guide, by file name."""
    return {block[2]: block[1] for block in _BLOCK.finditer(GUIDE.read_text("utf-8"))}


def _write(folder: Path, name: str, to: str = "") -> Path:
    place = folder / (to or name)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(code()[name], "utf-8")
    return place


def _python(folder: Path) -> Programs:
    found = [_write(folder, name) for name in ("publish.py", "receive.py")]
    return Programs(*([sys.executable, str(place)] for place in found))


def _javascript(folder: Path) -> Programs:
    node, cached = tool("node", "node"), CACHE / "node-sdk"
    if not (cached / "node_modules" / "cloudevents").is_dir():
        npm = [tool("node", "npm"), "install", "--no-audit", "--no-fund", "--ignore-scripts"]
        fetch("node", [*npm, "--prefix", str(cached), NODE_SDK], cached)
    found = [_write(folder, name) for name in ("publish.mjs", "receive.mjs")]
    (folder / "node_modules").symlink_to(cached / "node_modules")
    return Programs(*([node, str(place)] for place in found))


def _go(folder: Path) -> Programs:
    go = tool("go", "go")
    for name in ("publish", "receive"):
        _write(folder, f"{name}.go", f"{name}/main.go")
    (folder / "go.mod").write_text(f"module sdk\n\ngo 1.21\n\nrequire {GO_SDK}\n")
    fetch("go", [go, "mod", "tidy"], folder)
    for name in ("publish", "receive"):
        build([go, "build", "-o", f"{name}.exe", f"./{name}"], folder)
    return Programs([str(folder / "publish.exe")], [str(folder / "receive.exe")])


def _java(folder: Path) -> Programs:
    javac, java = tool("javac", "javac"), tool("javac", "java")
    jars = CACHE / f"java-sdk-{JAVA_SDK}"
    if not any(jars.glob("cloudevents-json-jackson-*.jar")):
        maven = tool("javac", "mvn")
        names = ("cloudevents-http-basic", "cloudevents-json-jackson")
        jars.mkdir(parents=True, exist_ok=True)
        (jars / "pom.xml").write_text(_POM.format("".join(map(_DEPENDENCY.format, names))))
        copy = [maven, "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={jars}"]
        fetch("javac", copy, jars)
    for name in ("Publish.java", "Receive.java"):
        _write(folder, name)
    build([javac, "-encoding", "UTF-8", "-cp", f"{jars}/*", "Publish.java", "Receive.java"], folder)
    run = [java, "-cp", os.pathsep.join((f"{jars}/*", str(folder)))]
    return Programs([*run, "Publish"], [*run, "Receive"])


LANGUAGES: Final[dict[str, Callable[[Path], Programs]]] = {
    "python": _python,
    "javascript": _javascript,
    "go": _go,
    "java": _java,
}
"""Language -> builds the programs in an empty folder."""
