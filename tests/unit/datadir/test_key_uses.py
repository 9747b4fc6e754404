"""The file of the last uses of keys."""

from distributary.datadir.key_uses import load_uses, save_uses


def test_the_latest_use_of_all_receivers_counts(tmp_path):
    """Missing and damaged files hold none."""
    paths = [tmp_path / name for name in ("key-uses.json", "key-uses-1.json", "no", "damaged")]
    save_uses(paths[0], {"a": 60_000, "b": 120_000})
    save_uses(paths[1], {"a": 180_000, "b": 60_000, "c": 0})
    paths[3].write_bytes(b'{"a": "yesterday"}')
    assert load_uses(paths) == {"a": 180_000, "b": 120_000, "c": 0}


def test_the_file_is_private(tmp_path):
    """Ids of keys are nobody else's business."""
    path = tmp_path / "key-uses.json"
    save_uses(path, {"a": 1})
    assert path.stat().st_mode & 0o077 == 0
