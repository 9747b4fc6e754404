"""``subscriptions apply`` and ``edit``: files and an editor for whole subscriptions.

Callers: ``_subscriptions``. Hides: what has changed, and how a change of others in between is
noticed.
"""

import contextlib
import os
import shlex
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
import typer
from rich.markup import escape

from distributary.cli import _console
from distributary.cli._api import NOT_FOUND, PRECONDITION_FAILED, call, checked, path_of
from distributary.cli._http import Address, Response
from distributary.cli._options import DEFAULT_URL, Namespace, TokenFrom, Url
from distributary.cli._server import server_at
from distributary.cli._yaml import documents
from distributary.core.errors import ResourceError, SettingsError
from distributary.core.tenant import DEFAULT_NAMESPACE
from distributary.resource import ResourceRules, SinkRule

SERVERS_MEMBERS: Final = frozenset({"id", "status"})
"""Members of a subscription that no proposal changes."""

EDITORS: Final = ("VISUAL", "EDITOR")
"""Variables that name the editor; without them it is ``vi``."""


def apply(
    *,
    file: Annotated[
        str, typer.Option("--file", "-f", metavar="FILE", help="YAML or JSON; - is standard input.")
    ],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be done; change nothing.")
    ] = False,
    namespace: Namespace = DEFAULT_NAMESPACE,
    url: Url = DEFAULT_URL,
    token_from: TokenFrom = None,
) -> None:
    """Create or replace subscriptions, so that they are as in a file.

    The file holds one subscription, a list of them, or several YAML documents, each with its id.
    Says of each whether it was created, replaced or unchanged; others stay as they are. If one
    is refused, the others are still applied, and the exit code is 1.

    For example:

      distributary subscriptions apply -f subscriptions.yaml

      distributary subscriptions get orders > orders.json
      distributary subscriptions apply -f orders.json
    """
    wanted = list(_subscriptions_in(file))
    address = server_at(url, token_from)
    code = _console.OK
    for body in wanted:
        done, response = _apply_one(address, namespace, body, dry_run=dry_run)
        shown = _console.fits_one_line(body["id"])
        if response is not None and not response.good:
            code = _console.FAILED
            _console.show_refusal(response, f"{shown} is not applied")
        else:
            if response is not None:
                checked(response)
            would = "would be " if dry_run and done != "unchanged" else ""
            _console.output().print(f"{escape(shown)} {would}{done}")
    raise typer.Exit(code)


def _subscriptions_in(file: str) -> Iterator[dict[str, Any]]:
    """The subscriptions in *file*.

    Raises:
        SettingsError: It cannot be read, or something in it is no subscription with an id.
    """
    found = 0
    try:
        for document in documents(file):
            for body in document if isinstance(document, list) else [document]:
                if body is None:
                    continue  # an empty document
                found += 1
                if not isinstance(body, dict):
                    raise SettingsError(f"{file}: subscription {found} is no object")
                if not isinstance(body.get("id"), str) or not body["id"]:
                    raise SettingsError(f"{file}: subscription {found} has no id")
                yield body
    except OSError as error:
        raise SettingsError(f"{file}: {error.strerror}") from error
    if not found:
        raise SettingsError(f"{file} holds no subscription")


def _apply_one(
    address: Address, namespace: str, body: dict[str, Any], *, dry_run: bool
) -> tuple[str, Response | None]:
    """Apply *body*; returns what was done, and the answer to look at."""
    path = path_of(body["id"], namespace)
    before = call(address, "GET", path)
    if before.status == NOT_FOUND:
        unless_there = (("if-none-match", "*"),)
        return "created", None if dry_run else call(address, "PUT", path, body, unless_there)
    if not before.good:
        return "", before
    if _equal(body, checked(before)):
        return "unchanged", None
    return "replaced", None if dry_run else call(address, "PUT", path, body, _if_match(before))


def _if_match(response: Response) -> tuple[tuple[str, str], ...]:
    """Fields of a change of what *response* has shown, and of nothing newer."""
    etag = response.headers.get("etag")
    return () if etag is None else (("if-match", etag),)


def _equal(wanted: dict[str, Any], realized: dict[str, Any]) -> bool:
    """Whether a replace by *wanted* would leave the subscription as it is.

    False where that is not known: of secrets nobody can read whether they are the same, and the
    server may have rules that we do not know.
    """
    # Loading them costs other commands a tenth of a second.
    from distributary.core import filter as filters  # noqa: PLC0415 - see above
    from distributary.subscriptions import resource  # noqa: PLC0415 - see above

    proposal = {name: wanted[name] for name in wanted if name not in SERVERS_MEMBERS}
    rules = ResourceRules(SinkRule(local_allowed=True), filters.check)
    try:
        spec = resource.parse(proposal, rules, secrets_kept=True)
    except ResourceError:
        return False
    if spec.credential is not None or spec.secrets:
        return False
    present = {name: realized[name] for name in realized if name not in SERVERS_MEMBERS}
    return spec.to_json() == present


def edit(
    id_: Annotated[str, typer.Argument(metavar="ID", hidden=True)],
    *,
    namespace: Namespace = DEFAULT_NAMESPACE,
    url: Url = DEFAULT_URL,
    token_from: TokenFrom = None,
) -> None:
    """Change one subscription in an editor: that of VISUAL or EDITOR, or vi.

    Nothing is changed if the text stays as it is, or if somebody else has changed the
    subscription meanwhile. What is refused stays in a file, whose name is printed.
    """
    address = server_at(url, token_from)
    path = path_of(id_, namespace)
    shown = _console.fits_one_line(id_)
    before = call(address, "GET", path)
    found = checked(before)
    found.pop("status", None)
    text = msgspec.json.format(msgspec.json.encode(found), indent=2) + b"\n"
    handle, name = tempfile.mkstemp(prefix="distributary-", suffix=".json")  # for this user alone
    file = Path(name)
    with os.fdopen(handle, "wb") as out:
        out.write(text)
    _open_editor(file)
    changed = file.read_bytes()
    if changed == text:
        file.unlink()
        _console.output().print(f"{escape(shown)} unchanged")
        return
    again = ["distributary", "subscriptions", "edit", id_, "--namespace", namespace, "--url", url]
    with _kept(file, again if token_from is None else [*again, "--token-from", token_from]):
        try:
            body = msgspec.json.decode(changed)
        except msgspec.MsgspecError as error:
            _console.fail(f"this is not JSON: {error}")
        response = call(address, "PUT", path, body, _if_match(before))
        if response.status == PRECONDITION_FAILED:
            _console.fail(f"somebody else has changed {shown} meanwhile", code=_console.FAILED)
        if not response.good:
            _console.show_refusal(response, f"{shown} is not changed")
            raise typer.Exit(_console.FAILED)
        checked(response)
    file.unlink()
    _console.output().print(f"{escape(shown)} replaced")


@contextlib.contextmanager
def _kept(file: Path, again: Sequence[str]) -> Iterator[None]:
    """Name *file* where its text was not taken, whatever the reason.

    Not ``apply``: it would undo what others have changed since the text was read.
    """
    try:
        yield
    except BaseException:
        kept = f"Your text is in {file}. Begin with what is there now: {shlex.join(again)}"
        _console.errors().print(f"  {escape(kept)}", soft_wrap=True)
        raise


def _open_editor(file: Path) -> None:
    """Open *file* in the editor, and wait for its end.

    Raises:
        SettingsError: It cannot be started, or has failed; the file is gone.
    """
    chosen = next((os.environ[name] for name in EDITORS if os.environ.get(name)), "vi")
    try:
        code = subprocess.call([*shlex.split(chosen), str(file)])
    except (OSError, ValueError) as error:
        file.unlink()
        raise SettingsError(f"the editor {chosen!r} cannot be started: {error}") from error
    if code != 0:
        file.unlink()
        raise SettingsError(f"the editor {chosen!r} ended with code {code}; nothing was changed")
