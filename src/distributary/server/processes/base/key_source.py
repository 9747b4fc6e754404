"""Keys of sealed secrets that a command prints, or that wait at a file descriptor.

They are read once, at the start, and reach the processes that seal and open secrets by the
environment variable that may hold them anyway. They are in no argument, no file and no log line.
"""

import os
import shlex
import subprocess
from collections.abc import MutableMapping
from typing import Final

from distributary.core.environment import CREDENTIAL_KEY_VARIABLE
from distributary.core.errors import SettingsError
from distributary.server.settings import Settings

COMMAND_S: Final = 30.0
"""Longest run of the command, seconds: it may ask a service, and the server does not start without
its answer."""

KEYS_BYTES_MAX: Final = 4096
"""Most bytes that are read: more than the most keys have."""

_SHOWN_CHARS_MAX: Final = 200


def bring_keys(settings: Settings, environ: MutableMapping[str, str]) -> None:
    """Put the keys that *settings* name elsewhere into *environ*; nothing where they name none.

    Raises:
        SettingsError: They name two places, or the one place brings no keys. The message holds
            nothing of what was read.
    """
    named = {
        CREDENTIAL_KEY_VARIABLE: environ.get(CREDENTIAL_KEY_VARIABLE),
        "credential_key_file": settings.credential_key_file,
        "credential_key_command": settings.credential_key_command,
        "credential_key_fd": settings.credential_key_fd,
    }
    chosen = [name for name, value in named.items() if value is not None]
    if settings.credential_key_command is None and settings.credential_key_fd is None:
        return
    if len(chosen) > 1:
        raise SettingsError(
            f"keys of sink credentials come from one place, and {' and '.join(chosen)} are set:"
            " leave all but one out"
        )
    if settings.credential_key_fd is not None:
        read = _from_descriptor(settings.credential_key_fd)
    else:
        assert settings.credential_key_command is not None
        read = printed_by(settings.credential_key_command, "credential_key_command")
    if len(read) > KEYS_BYTES_MAX:
        raise SettingsError(f"{chosen[0]}: more than {KEYS_BYTES_MAX} bytes, so no keys")
    keys = read.decode("ascii", "replace").split()
    if not keys:
        raise SettingsError(f"{chosen[0]}: it brought no keys")
    environ[CREDENTIAL_KEY_VARIABLE] = ",".join(keys)


def _from_descriptor(number: int) -> bytes:
    try:
        with os.fdopen(number, "rb") as file:
            return file.read(KEYS_BYTES_MAX + 1)
    except OSError as error:
        raise SettingsError(
            f"credential_key_fd: descriptor {number} cannot be read: {error.strerror}."
            " Open it for the server, such as with 3<keys in a shell"
        ) from error


def printed_by(line: str, setting: str) -> bytes:
    """What the command *line* prints, which *setting* names.

    Raises:
        SettingsError: It failed; its standard error is quoted.
    """
    try:
        done = subprocess.run(
            shlex.split(line),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=COMMAND_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise SettingsError(f"{setting}: it took longer than {COMMAND_S:g} s") from error
    except OSError as error:
        raise SettingsError(f"{setting}: it cannot be run: {error.strerror or error}") from error
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip()[-_SHOWN_CHARS_MAX:]
        raise SettingsError(f"{setting}: it ended with {done.returncode}: {said!r}")
    return done.stdout
