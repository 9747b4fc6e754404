"""The folder of an executor: private, and gone when a later one comes."""

import os
import subprocess
import sys

import pytest

from distributary.partitions._scratch import GIVEN_BY, make_scratch


@pytest.fixture
def ended():
    """Process id of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


@pytest.mark.parametrize("name", GIVEN_BY)
def test_it_is_where_spark_removes_it(tmp_path, name):
    """In the first folder of the application that can be written; for its owner alone."""
    folder = make_scratch(os.getpid(), {name: f"/nowhere,{tmp_path}"})
    assert folder.parent == tmp_path
    assert folder.stat().st_mode & 0o777 == 0o700
    assert make_scratch(os.getpid(), {name: str(tmp_path)}) == folder


def test_what_a_killed_executor_left_is_removed(tmp_path, ended):
    """By the next one in the same place."""
    left = make_scratch(ended, {"LOCAL_DIRS": str(tmp_path)})
    (left / "run").mkdir()
    folder = make_scratch(os.getpid(), {"LOCAL_DIRS": str(tmp_path)})
    assert list(tmp_path.iterdir()) == [folder]


def test_a_folder_that_others_may_enter_is_refused(tmp_path):
    """Somebody else may have made it."""
    folder = make_scratch(os.getpid(), {"LOCAL_DIRS": str(tmp_path)})
    folder.chmod(0o755)
    with pytest.raises(PermissionError, match="ours alone"):
        make_scratch(os.getpid(), {"LOCAL_DIRS": str(tmp_path)})
