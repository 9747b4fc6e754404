"""Run a program under the restrictions of a systemd unit, where systemd does not run.

    python -m kit.unit_sandbox UNIT STATE_DIRECTORY CREDENTIAL... -- PROGRAM [ARGUMENTS]

Callers: the test of ``packaging/distributary.service``. Needs Linux, root, ``systemd-analyze`` (for
the groups of system calls) and libseccomp. It reads the unit and applies:

- SystemCallFilter, SystemCallErrorNumber (EPERM), RestrictAddressFamilies, RestrictNamespaces and
  MemoryDenyWriteExecute=yes, by a seccomp filter as systemd makes it;
- ProtectSystem=strict: what is mounted is read-only, but /dev, /proc, /sys and the state directory;
- PrivateTmp: /tmp and /var/tmp of its own, into which the folders it was told to keep are mounted;
- NoNewPrivileges, an empty CapabilityBoundingSet, UMask, LimitNOFILE and LimitCORE;
- Environment with %S and %d, LoadCredential and WorkingDirectory.

The user stays root without a capability: what another user could read depends on the machine.
Not applied: User, ProtectHome, PrivateDevices, PrivateUsers, IPAddressDeny, the other lines.
"""

import ctypes
import errno
import os
import re
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

__all__ = ["calls_of", "lacking", "read_unit"]

_ALLOW = 0x7FFF0000
_ERRNO = 0x00050000
_EQUAL, _MASKED_EQUAL = 4, 7
_CLONE_NEWNS = 0x00020000
_NAMESPACES = 0x7E020000 | 0x00000080
"""Flags of clone(2) for new namespaces."""
_PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS, _PR_SET_SECUREBITS = 24, 38, 28
_NOROOT_LOCKED = 0b11
"""Securebits: root is a user like others at execve, and stays that."""
_MS_BIND, _MS_REC, _MS_PRIVATE, _MS_REMOUNT, _MS_RDONLY = 0x1000, 0x4000, 1 << 18, 0x20, 1
_FAMILIES = {"AF_UNIX": 1, "AF_INET": 2, "AF_INET6": 10, "AF_NETLINK": 16}
_EXEC, _WRITE = 4, 2

Unit = Mapping[str, Sequence[str]]


def read_unit(text: str) -> dict[str, list[str]]:
    """The lines of ``[Service]``: key -> its values in order; an empty one forgets those before."""
    service = text.partition("[Service]\n")[2].partition("\n[")[0]
    found: dict[str, list[str]] = {}
    for line in service.splitlines():
        if line and not line.startswith("#"):
            key, _, value = line.partition("=")
            found[key] = [*found.get(key, []), value] if value else []
    return found


def calls_of(filters: Sequence[str]) -> set[str]:
    """The system calls that the lines of SystemCallFilter allow; the first one must allow."""
    allowed: set[str] = set()
    for line in filters:
        names = _expand(line.removeprefix("~").split())
        allowed = allowed - names if line.startswith("~") else allowed | names
    return allowed | _expand(["@default"])  # systemd always allows these


def _expand(names: Iterable[str]) -> set[str]:
    found: set[str] = set()
    for name in names:
        if not name.startswith("@"):
            found.add(name)
            continue
        listed = subprocess.run(
            ["systemd-analyze", "syscall-filter", name],
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        ).stdout
        members = [line.strip() for line in listed.splitlines()[1:]]
        found |= _expand(one for one in members if one and not one.startswith("#"))
    return found


def lacking() -> str:
    """Why this machine cannot do it; empty if it can."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return "needs Linux and root"
    if not shutil.which("systemd-analyze"):
        return "no systemd-analyze"
    try:
        ctypes.CDLL("libseccomp.so.2")
    except OSError:
        return "no libseccomp"
    tried = subprocess.run(
        ["unshare", "--mount", "mount", "-o", "remount,bind,ro", "/"],
        check=False,
        capture_output=True,
    )
    return "" if tried.returncode == 0 else "mounts cannot be changed here"


def _mount(source: str, target: str, kind: str, flags: int, data: str = "") -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(source.encode(), target.encode(), kind.encode(), flags, data.encode()):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), target)


def _mount_points() -> list[str]:
    lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
    points = [line.split()[4] for line in lines]
    return [re.sub(r"\\(\d{3})", lambda match: chr(int(match[1], 8)), one) for one in points]


def _restrict_files(unit: Unit, state: Path, kept: Sequence[Path]) -> None:
    """A view of the files of its own, in which little can be written."""
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.unshare(_CLONE_NEWNS) == 0
    _mount("none", "/", "", _MS_REC | _MS_PRIVATE)
    if unit.get("PrivateTmp") == ["yes"]:
        opened = [(path, os.open(path, os.O_PATH)) for path in (*kept, state)]
        for folder in ("/tmp", "/var/tmp"):  # noqa: S108 - these very folders
            _mount("tmpfs", folder, "tmpfs", 0, "mode=1777")
        for path, descriptor in opened:
            if any(path.is_relative_to(folder) for folder in ("/tmp", "/var/tmp")):  # noqa: S108
                path.mkdir(parents=True, exist_ok=True)
                _mount(f"/proc/self/fd/{descriptor}", str(path), "", _MS_BIND)
            os.close(descriptor)
    _mount(str(state), str(state), "", _MS_BIND)
    if unit.get("ProtectSystem") == ["strict"]:
        writable = ("/dev", "/proc", "/sys", "/tmp", "/var/tmp", str(state))  # noqa: S108
        for point in _mount_points():
            if point not in writable and not point.startswith(("/dev/", "/proc/", "/sys/")):
                _mount("none", point, "", _MS_BIND | _MS_REMOUNT | _MS_RDONLY)


def _restrict_rights(unit: Unit) -> None:
    """Limits, and no capability for it or for what it starts."""
    for key, what in (("LimitNOFILE", resource.RLIMIT_NOFILE), ("LimitCORE", resource.RLIMIT_CORE)):
        for value in unit.get(key, ()):
            resource.setrlimit(what, (int(value), int(value)))
    for value in unit.get("UMask", ()):
        os.umask(int(value, 8))
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(_PR_SET_SECUREBITS, _NOROOT_LOCKED, 0, 0, 0) == 0
    if unit.get("CapabilityBoundingSet") == []:
        for capability in range(64):
            libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
    if unit.get("NoNewPrivileges") == ["yes"]:
        assert libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0


class _Comparison(ctypes.Structure):
    _fields_ = (
        ("argument", ctypes.c_uint),
        ("operator", ctypes.c_int),
        ("first", ctypes.c_uint64),
        ("second", ctypes.c_uint64),
    )


def _restrict_calls(unit: Unit) -> None:
    """The filter of system calls; what is not allowed fails with EPERM."""
    library = ctypes.CDLL("libseccomp.so.2")
    library.seccomp_init.restype = ctypes.c_void_p
    context = ctypes.c_void_p(library.seccomp_init(ctypes.c_uint32(_ERRNO | errno.EPERM)))

    def rule(action: int, name: str, *comparisons: _Comparison) -> None:
        number = library.seccomp_syscall_resolve_name(name.encode())
        if number < 0:
            return  # a call of another architecture
        array = (_Comparison * max(1, len(comparisons)))(*comparisons)
        status = library.seccomp_rule_add_array(
            context, ctypes.c_uint32(action), number, len(comparisons), array
        )
        assert status == 0, f"{name}: {os.strerror(-status)}"

    names = calls_of(unit["SystemCallFilter"])
    if unit.get("RestrictAddressFamilies"):
        names.discard("socket")
        for family in unit["RestrictAddressFamilies"][0].split():
            rule(_ALLOW, "socket", _Comparison(0, _EQUAL, _FAMILIES[family], 0))
    if unit.get("RestrictNamespaces") == ["yes"]:
        names -= {"clone", "clone3", "unshare", "setns"}
        rule(_ALLOW, "clone", _Comparison(0, _MASKED_EQUAL, _NAMESPACES, 0))
        rule(_ERRNO | errno.ENOSYS, "clone3")  # its flags cannot be seen: the C library takes clone
    if unit.get("MemoryDenyWriteExecute") == ["yes"]:
        names -= {"mmap", "mprotect", "pkey_mprotect"}
        rule(_ALLOW, "mmap", _Comparison(2, _MASKED_EQUAL, _EXEC, 0))
        rule(_ALLOW, "mmap", _Comparison(2, _MASKED_EQUAL, _EXEC | _WRITE, _EXEC))
        rule(_ALLOW, "mprotect", _Comparison(2, _MASKED_EQUAL, _EXEC, 0))
    for name in sorted(names):
        rule(_ALLOW, name)
    assert library.seccomp_load(context) == 0


def main(arguments: Sequence[str]) -> int:
    """Restrict this process, then become the program; 125 if it cannot."""
    split = arguments.index("--")
    unit_path, state_path, *credentials = arguments[:split]
    program = list(arguments[split + 1 :])
    unit, state = read_unit(Path(unit_path).read_text(encoding="utf-8")), Path(state_path)
    secrets = state.with_name(state.name + ".credentials")
    secrets.mkdir(mode=0o700, exist_ok=True)
    for value in unit.get("LoadCredential", ()):
        name = value.partition(":")[0]
        given = next(Path(one) for one in credentials if Path(one).name == name)
        target = secrets / name
        target.write_bytes(given.read_bytes())
        target.chmod(0o440)  # as systemd's: root's, and its user may read it by an access list
    here = Path.cwd()
    interpreter = Path(sys.prefix)
    environ = dict(os.environ) | {"CREDENTIALS_DIRECTORY": str(secrets)}
    for value in unit.get("Environment", ()):
        name, _, setting = value.partition("=")
        setting = setting.replace("%S/distributary", str(state)).replace("%d", str(secrets))
        environ[name] = setting
    _restrict_files(unit, state, (here, interpreter, secrets))
    os.chdir(state)
    _restrict_rights(unit)
    _restrict_calls(unit)
    os.execvpe(program[0], program, environ)  # noqa: S606 - no shell


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
