"""The mark of a folder that owners on several machines write into."""

import pytest

from distributary.core.errors import StoreError
from distributary.history.place import is_marked, mark


def test_a_folder_is_known_by_its_mark(tmp_path):
    """The same folder under the same path is known; another machine's is not."""
    mark(tmp_path / "shared", "shop", replace=False)
    mark(tmp_path / "shared", "shop", replace=False)
    (tmp_path / "other").mkdir()
    assert is_marked(tmp_path / "shared", "shop")
    assert not is_marked(tmp_path / "shared", "shop at node-1")
    assert not is_marked(tmp_path / "other", "shop")
    assert not is_marked(tmp_path / "missing", "shop")


def test_the_folder_of_another_server_is_refused(tmp_path):
    """Each would merge and delete the files of the other."""
    mark(tmp_path, "shop", replace=False)
    with pytest.raises(StoreError, match="the folder of another server \\(shop\\)"):
        mark(tmp_path, "orders", replace=False)
    assert is_marked(tmp_path, "shop")


def test_the_folder_of_a_node_is_marked_anew(tmp_path):
    """A node that was renamed goes on with what it has."""
    mark(tmp_path, "shop at node-1", replace=True)
    mark(tmp_path, "shop at node-2", replace=True)
    assert is_marked(tmp_path, "shop at node-2")
