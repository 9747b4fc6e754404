"""Where the time goes: py-spy on processes of the server while a line is measured."""

import collections
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

SHOWN = 18


def start(pids, seconds):
    """Record the processes in *pids* (name -> pid); a function that returns the text."""
    program = shutil.which("py-spy") or str(Path(sys.executable).with_name("py-spy"))
    folder = Path(tempfile.mkdtemp(prefix="profile-"))
    running = [
        subprocess.Popen(
            [program, "record", "--pid", str(pid), "--duration", str(seconds), "--rate", "200",
             "--format", "raw", "--output", str(folder / name), "--nonblocking"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )
        for name, pid in pids.items()
    ]  # fmt: skip

    def finish():
        for process in running:
            process.wait()
        text = "\n".join(f"-- {name}\n{_top(folder / name)}" for name in pids)
        shutil.rmtree(folder)
        return text

    return finish


def _top(path):
    if not path.exists():
        return "nothing recorded"
    selves, total = collections.Counter(), 0
    for line in path.read_text().splitlines():
        stack, _, count = line.rpartition(" ")
        selves[stack.rpartition(";")[2]] += int(count)
        total += int(count)
    return "\n".join(
        f"{100 * count / total:5.1f} %  {name}" for name, count in selves.most_common(SHOWN)
    )
