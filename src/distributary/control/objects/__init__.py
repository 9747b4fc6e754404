"""The objects of the Kubernetes API: their store, the one who writes them, and who watches.

Called by ``api.kubernetes`` and ``control.reconcile``. Hides the tables, how writes share a
transaction, resource versions, and the window of changes that watches are served from.
"""

from distributary.control.objects._values import Change, ChangeType, Stored, Write

__all__ = ["Change", "ChangeType", "Stored", "Write"]
