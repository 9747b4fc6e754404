"""Delivers a partition: lock, files, targets and transports around the engine."""

from distributary.partitions._prepared import prepare_next, stands_in
from distributary.partitions._session import PartitionSession, SessionSettings, owner_log
from distributary.partitions._targets import DirectoryTargets
from distributary.partitions.guardians import Guardians
