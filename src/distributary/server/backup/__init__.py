"""Backups of a data directory, taken while its server runs, and directories made of them.

Callers: ``cli``. Hides: the order of copying, and what has to be new in a copy.
"""

from distributary.server.backup._back_up import back_up
from distributary.server.backup._manifest import BackupError
from distributary.server.backup._restore import check, restore
