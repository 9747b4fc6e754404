"""Delivery protocols, one client library each, all behind ``deliver.Transport``.

Called by ``server``, which gives them to the dispatcher. They do not know each other.
"""

__all__: list[str] = []
