"""Delivers a partition: lock, files, targets and transports around the engine."""

from distributary.partitions._holding import Holding
from distributary.partitions._issuing import IssuingKeys
from distributary.partitions._owner_log import owner_log
from distributary.partitions._prepared import prepare_next
from distributary.partitions._session import PartitionSession
from distributary.partitions._session_settings import SessionSettings
from distributary.partitions._targets import DirectoryTargets
from distributary.partitions.entrusted import Entrusted, entrusted_of
from distributary.partitions.guardians import Guardians
from distributary.partitions.places import LiveSource, Places, stands_in
