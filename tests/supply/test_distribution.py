"""What is handed out: wheel, source distribution, manual page, completions, container."""

import email
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import threading
import tomllib
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType

import pytest
import typer
import yaml

import distributary
from distributary.cli._commands import app
from distributary.server import settings
from kit.ports import free_port

ROOT = Path(__file__).parents[2]
DOCKER = ROOT / "packaging" / "docker"
ADDRESS = "https://git.example.org/events/distributary/blob/v0.1.0"


def _build(folder: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    return subprocess.run(
        command,
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=os.environ | environ,
    )


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with both distributions, built as publishers do: the wheel from the sdist."""
    folder = tmp_path_factory.mktemp("built")
    ran = _build(folder, BUILD_SOURCE_URL=ADDRESS)
    assert ran.returncode == 0, ran.stdout
    return folder


@pytest.fixture(scope="module")
def hook() -> ModuleType:
    """packaging/metadata_hook.py."""
    spec = importlib.util.spec_from_file_location("hook", ROOT / "packaging" / "metadata_hook.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_an_index_would_take_both(built: Path) -> None:
    """`twine check --strict`: the long description can be shown."""
    paths = sorted(map(str, built.iterdir()))
    assert len(paths) == 2
    command = [sys.executable, "-m", "twine", "check", "--strict", *paths]
    ran = subprocess.run(command, check=False, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.slow
def test_the_wheel_has_everything_that_the_package_has(built: Path) -> None:
    """Every file that is no code too, the types, the licence, and what a system installs."""
    with zipfile.ZipFile(next(built.glob("*.whl"))) as wheel:
        names = set(wheel.namelist())
        (metadata,) = (name for name in names if name.endswith("/METADATA"))
        fields = email.message_from_bytes(wheel.read(metadata))
    source = ROOT / "src"
    for path in (source / "distributary").rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts:
            assert str(path.relative_to(source)) in names, path
    assert "distributary/py.typed" in names
    data = f"distributary-{distributary.__version__}.data/data/share/"
    for path in (
        "man/man1/distributary.1",
        "bash-completion/completions/distributary",
        "zsh/site-functions/_distributary",
        "fish/vendor_completions.d/distributary.fish",
        "distributary/distributary.service",
        "distributary/compose.yaml",
        "distributary/grafana.json",
        "distributary/prometheus-rules.yml",
    ):
        assert data + path in names
    assert any(name.endswith("/licenses/LICENSE") for name in names)
    assert fields["Version"] == distributary.__version__
    assert fields["License-Expression"] == "Apache-2.0"
    assert "Typing :: Typed" in fields.get_all("Classifier", [])
    urls = dict(line.split(", ") for line in fields.get_all("Project-URL", []))
    assert urls["Source"] == ADDRESS
    assert urls["Changelog"] == f"{ADDRESS}/CHANGELOG.md"


@pytest.mark.slow
def test_the_installed_wheel_runs_away_from_the_repository(built: Path, tmp_path: Path) -> None:
    """Its program starts, knows its version and finds its own files; no code of the clone is used.

    Its dependencies are those of this Python: an index is not needed.
    """
    (wheel,) = built.glob("*.whl")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    # Without --ignore-installed pip would take away what is installed here.
    command += ["--ignore-installed", "--prefix", str(tmp_path / "at"), str(wheel)]
    subprocess.run(command, check=True, capture_output=True)
    (site,) = (tmp_path / "at").glob("lib*/python*/site-packages")
    environ = {name: text for name, text in os.environ.items() if "DISTRIBUTARY" not in name}
    environ["PYTHONPATH"] = str(site)
    program = str(tmp_path / "at" / "bin" / "distributary")

    def run(*words: str, text: str = "") -> str:
        ran = subprocess.run(
            words,
            check=False,
            cwd=tmp_path,
            env=environ,
            input=text,
            capture_output=True,
            text=True,
        )
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    assert run(program, "version") == distributary.__version__ + "\n"
    where = run(sys.executable, "-c", "import distributary; print(distributary.__file__)")
    assert where.startswith(str(site))
    event = '{"specversion":"1.0","id":"1","source":"/s","type":"a"}\n'
    assert run(program, "filter", "-", "--sql", "type = 'a'", text=event).startswith("pass 1")
    assert "a server would start" in run(program, "config", "check")
    share = tmp_path / "at" / "share"
    assert (share / "man" / "man1" / "distributary.1").read_text().startswith(".")
    assert (share / "distributary" / "distributary.service").exists()


@pytest.mark.slow
def test_the_source_distribution_can_be_tested(built: Path) -> None:
    """It has what git has, so that a distribution's packagers can build and test it."""
    if not shutil.which("git"):
        pytest.skip("NOT RUN: git: it is not on this machine")
    tracked = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, check=False, capture_output=True, text=True
    )
    if tracked.returncode:
        pytest.skip("NOT RUN: git: this is no clone")
    with tarfile.open(next(built.glob("*.tar.gz"))) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    there = {name for name in tracked.stdout.split("\0") if name and (ROOT / name).exists()}
    assert there - names == set()


def test_no_link_of_the_description_leads_nowhere(hook: ModuleType) -> None:
    """With an address links are absolute, without one they are text; code stays as it is."""
    text = (ROOT / "README.md").read_text()
    links = re.compile(r"\]\(([^)\s]+)\)|(?:href|src)=\"([^\"]+)\"")
    for base in ("", ADDRESS):
        shown = hook.long_description(text, base)
        targets = ["".join(found) for found in links.findall(shown)]
        assert [target for target in targets if not re.match("[a-z]+:", target)] == []
        assert shown.count("```") == text.count("```")
    assert f"]({ADDRESS}/docs/README.md)" in hook.long_description(text, ADDRESS)
    sample = "![a b](docs/a.png) [c](#d) [e](mailto:x@example.org)\n```text\n[f](g)\n```\n"
    assert (
        hook.long_description(sample, "")
        == "a b c [e](mailto:x@example.org)\n```text\n[f](g)\n```\n"
    )
    made = hook.long_description(sample, ADDRESS)
    assert made.startswith(f"![a b]({ADDRESS.replace('/blob/', '/raw/')}/docs/a.png) ")
    assert f"[c]({ADDRESS}/README.md#d)" in made


@pytest.mark.parametrize(
    "address",
    ["http://example.org/a", "https://me:secret@example.org/a", "https://example.org/a?b=c", "x"],
)
def test_an_address_that_is_none_builds_nothing(
    hook: ModuleType, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    """It would be in every installed package, a password too."""
    monkeypatch.setenv("BUILD_SOURCE_URL", address)
    with pytest.raises(ValueError, match="expected an address such as"):
        hook.source_url()


def test_the_manual_has_every_command_and_no_fault() -> None:
    """Each command has its section; groff reads it without a warning."""
    page = ROOT / "man" / "distributary.1"
    sections = re.findall(r'^\.SS "(.+)"$', page.read_text(), re.MULTILINE)
    group = typer.main.get_command(app)
    for name, command in vars(group)["commands"].items():
        inner = getattr(command, "commands", {}) or {"": None}
        for each in inner:
            assert f"{name} {each}".strip().replace("-", "\\-") in sections
    if not (shutil.which("groff") and shutil.which("man")):
        pytest.skip("NOT RUN: groff: it is not on this machine (Debian: groff, man-db)")
    ran = subprocess.run(
        ["groff", "-man", "-Tutf8", "-ww", "-z", str(page)],
        check=False,
        capture_output=True,
        text=True,
    )
    assert (ran.returncode, ran.stderr) == (0, "")


COMPLETE_IN_BASH = """
source "$1"
COMP_WORDS=(distributary subscr)
COMP_CWORD=1
_distributary_completion distributary
printf "%s\\n" "${COMPREPLY[@]}"
"""

COMPLETE_IN_ZSH = """
compdef() { }
_arguments() { print -r -- "$@" }
words=(distributary subscr)
CURRENT=2
source "$1"
"""

COMPLETIONS = {
    "bash": ("distributary.bash", COMPLETE_IN_BASH),
    "zsh": ("_distributary", COMPLETE_IN_ZSH),
    "fish": ("distributary.fish", 'source $argv[1]; complete -C "distributary subscr"'),
}
"""Shell -> its file, and a program that reads it and completes ``distributary subscr``."""


@pytest.mark.parametrize("shell", COMPLETIONS)
def test_shells_read_the_completions(shell: str, tmp_path: Path) -> None:
    """In a shell that is here: what follows ``distributary subscr`` is one of two."""
    name, program = COMPLETIONS[shell]
    path = ROOT / "packaging" / "completions" / name
    assert "distributary" in path.read_text()
    if not shutil.which(shell):
        pytest.skip(f"NOT RUN: {shell}: it is not on this machine")
    (tmp_path / "distributary").write_text(
        f"#!{sys.executable}\nfrom distributary.cli import main\nmain()\n"
    )
    (tmp_path / "distributary").chmod(0o755)
    environ = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    words = [shell, "-c", program, *([shell] if shell != "fish" else []), str(path)]
    ran = subprocess.run(words, check=False, capture_output=True, text=True, env=environ)
    assert ran.returncode == 0, ran.stderr
    assert {"subscribe", "subscriptions"} <= set(re.findall(r"\bsubscri\w+", ran.stdout))
    assert "listen" not in ran.stdout


def _instructions() -> list[tuple[str, str]]:
    """Name and arguments of each line of the Dockerfile, joined and without comments."""
    text = re.sub(r"^\s*#.*\n", "", (DOCKER / "Dockerfile").read_text(), flags=re.MULTILINE)
    lines = text.replace("\\\n", " ").splitlines()
    return [(line.split(None, 1)[0], line.split(None, 1)[1]) for line in lines if line.strip()]


def test_the_image_runs_as_nobody_special_and_ends_when_asked() -> None:
    """Its last stage: a user, a health check, a volume, and programs without a shell around."""
    found = _instructions()
    assert {name for name, _ in found} <= {
        *("ARG", "FROM", "RUN", "COPY", "ENV", "USER", "WORKDIR", "VOLUME", "EXPOSE"),
        *("STOPSIGNAL", "HEALTHCHECK", "ENTRYPOINT", "CMD"),
    }
    start = max(number for number, (name, _) in enumerate(found) if name == "FROM")
    last = found[start:]
    names = [name for name, _ in last]
    said = dict(last)
    assert [name for name, _ in found].count("FROM") == 2
    assert said["USER"] == "distributary"
    assert "RUN" not in names[names.index("USER") :], "what runs later runs as that user"
    assert json.loads(said["VOLUME"]) == ["/var/lib/distributary"]
    assert json.loads(said["ENTRYPOINT"])[0] == "tini"
    assert json.loads(said["CMD"]) == ["serve"]
    assert said["STOPSIGNAL"] == "SIGTERM"
    check = re.fullmatch(r"(?:--\S+ +)*CMD (\[.*\])", said["HEALTHCHECK"])
    assert check is not None
    assert json.loads(check[1])[-1].endswith("/healthy.py")
    versions = {arguments for name, arguments in found if name == "ARG"}
    assert versions == {"PYTHON=3.13-slim-bookworm"}
    assert not re.search(r"(KEY|TOKEN|SECRET|PASSWORD)=", (DOCKER / "Dockerfile").read_text())
    for arguments in (arguments for name, arguments in found if name == "RUN"):
        if "apt-get install" in arguments:
            assert "--no-install-recommends" in arguments
            assert "rm -rf /var/lib/apt/lists/*" in arguments
        if "pip install" in arguments and "/build/locks" in arguments:
            assert arguments.count("pip install") == arguments.count("--require-hashes")


def test_the_image_is_made_of_files_that_are_there() -> None:
    """Each source of COPY is in the repository, and let through to the build."""
    ignore = (DOCKER / "Dockerfile.dockerignore").read_text().splitlines()
    let_through = {line[1:].rstrip("/") for line in ignore if line.startswith("!")}
    assert "*" in ignore
    for name, arguments in _instructions():
        if name == "COPY" and not arguments.startswith("--from="):
            for source in arguments.split()[:-1]:
                assert (ROOT / source).exists(), source
                assert source.split("/")[0] in let_through, source
    wanted = {"LICENSE", "README.md", "pyproject.toml"}
    wanted |= {"deploy", "locks", "man", "packaging", "src"}
    assert let_through == wanted
    data = tomllib.loads((ROOT / "pyproject.toml").read_text())
    shared = data["tool"]["hatch"]["build"]["targets"]["wheel"]["shared-data"]
    assert {source.split("/")[0] for source in shared} <= let_through


def _environment_of_the_image() -> dict[str, str]:
    pairs = [arguments for name, arguments in _instructions() if name == "ENV"][-1].split()
    return dict(pair.split("=", 1) for pair in pairs)


def test_the_composed_services_say_what_the_programs_understand() -> None:
    """Settings load, commands and options are there, and nothing is open to other machines."""
    document = yaml.safe_load((DOCKER / "compose.yaml").read_text())
    services = document["services"]
    environ = _environment_of_the_image() | services["server"]["environment"]
    chosen = settings.load({}, environ, None)
    assert (chosen.host, chosen.auth, chosen.health_port) == ("0.0.0.0", "off", 8081)
    assert chosen.allowed_hosts == ("server",)
    group = typer.main.get_command(app)
    for name, service in services.items():
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ())), name
        words = service.get("command", ["serve"])
        command = vars(group)["commands"][words[0]]
        context = command.make_context(words[0], list(words[1:]))
        assert context.params
    assert services["server"]["build"]["dockerfile"] == "packaging/docker/Dockerfile"
    assert (DOCKER / services["server"]["build"]["context"]).resolve() == ROOT
    assert set(document["volumes"]) == {"data"}


@pytest.mark.parametrize(("status", "code"), [(200, 0), (503, 1), (None, 1)])
def test_the_container_is_healthy_while_the_server_is_ready(status: int | None, code: int) -> None:
    """By the exit code: ready; not ready; nobody there."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status if self.path == "/readyz" and status else 404)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        port = str(server.server_port)
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        try:
            environ = os.environ | {
                "DISTRIBUTARY_HEALTH_PORT": port if status else str(free_port())
            }
            ran = subprocess.run([sys.executable, DOCKER / "healthy.py"], check=False, env=environ)
        finally:
            server.shutdown()
            serving.join()
    assert ran.returncode == code


@pytest.mark.slow
def test_the_image_builds() -> None:
    """With a daemon and a registry; without them it is NOT RUN."""
    (version,) = (words[7:] for name, words in _instructions() if name == "ARG")
    pull = ["docker", "pull", "--quiet", f"python:{version}"]
    if (
        not shutil.which("docker")
        or subprocess.run(["docker", "info"], check=False, capture_output=True).returncode
    ):
        pytest.skip("NOT RUN: docker: no daemon can be reached from here")
    if subprocess.run(pull, check=False, capture_output=True).returncode:
        pytest.skip("NOT RUN: docker: no registry has the base image")
    command = ["docker", "build", "--quiet", "-f", str(DOCKER / "Dockerfile"), str(ROOT)]
    ran = subprocess.run(command, check=False, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
