"""Where log and state lie that several nodes share, with their passwords.

Passwords come from files, commands or variables of the environment, once, at the start. They are in
no argument, no setting and no log line.
"""

from collections.abc import MutableMapping
from pathlib import Path
from typing import Final

from distributary.core.cluster import SharedPlaces
from distributary.core.environment import LOG_PASSWORD_VARIABLE, STORE_PASSWORD_VARIABLE
from distributary.core.errors import SettingsError, StoreError
from distributary.core.files import read_private
from distributary.server.processes.base.key_source import printed_by
from distributary.server.settings import Settings, log_place, store_place

PASSWORD_BYTES_MAX: Final = 4096
"""More than any password has."""

_REMEDY: Final = "change the password"


def shared_places(settings: Settings, environ: MutableMapping[str, str]) -> SharedPlaces | None:
    """Returns the places; takes both passwords out of *environ*. None: all is in the data folder.

    Raises:
        SettingsError: A password cannot be had; a line for each fault, without what was read.
    """
    held = {
        "log": environ.pop(LOG_PASSWORD_VARIABLE, ""),
        "store": environ.pop(STORE_PASSWORD_VARIABLE, ""),
    }
    if settings.log is None or settings.store is None:
        return None
    faults: list[str] = []
    passwords = {name: _password(settings, name, text, faults) for name, text in held.items()}
    if faults:
        raise SettingsError("\n".join(("These settings cannot be used:", *faults)))
    return SharedPlaces(
        log=log_place(settings, passwords["log"]),
        store=store_place(settings, passwords["store"]),
    )


def look_at_passwords(settings: Settings) -> None:
    """Check that files of passwords, where they are named, can be used; runs no command.

    Raises:
        SettingsError: One cannot be; a line for each fault.
    """
    faults: list[str] = []
    for name, file in _files(settings).items():
        if file is not None:
            _from_file(file, f"{name}_password_file", faults)
    if faults:
        raise SettingsError("\n".join(("These settings cannot be used:", *faults)))


def _files(settings: Settings) -> dict[str, Path | None]:
    return {"log": settings.log_password_file, "store": settings.store_password_file}


def _password(settings: Settings, name: str, held: str, faults: list[str]) -> str:
    commands = {"log": settings.log_password_command, "store": settings.store_password_command}
    file, command = _files(settings)[name], commands[name]
    if file is not None:
        return _from_file(file, f"{name}_password_file", faults)
    if command is None:
        return held
    setting = f"{name}_password_command"
    try:
        return _first_line(printed_by(command, setting), setting, faults)
    except SettingsError as error:
        faults.append(str(error))
        return ""


def _from_file(file: Path, setting: str, faults: list[str]) -> str:
    try:
        read = read_private(
            file, PASSWORD_BYTES_MAX + 1, what=f"the file of a password ({setting})", remedy=_REMEDY
        )
    except StoreError as error:
        faults.append(f"{setting}: {error}")
        return ""
    return _first_line(read, setting, faults)


def _first_line(read: bytes, setting: str, faults: list[str]) -> str:
    line = read.partition(b"\n")[0].rstrip(b"\r")
    try:
        password = line.decode("utf-8")
    except UnicodeDecodeError:
        password = ""
    if not password or len(line) > PASSWORD_BYTES_MAX or "\0" in password:
        faults.append(f"{setting}: expected a password in the first line, in UTF-8")
    return password
