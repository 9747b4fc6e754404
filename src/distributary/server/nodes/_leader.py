"""Who leads, as receivers learn it: a small file that the node process writes."""

from pathlib import Path

import msgspec

from distributary.datadir import PolledFile


class Leader(msgspec.Struct, frozen=True, kw_only=True):
    """The leading node.

    Attributes:
        name: Its name.
        address: ``host:port`` at which other nodes reach it.
        generation: Of its lease; 0: nobody leads, and the rest is empty.
    """

    name: str = ""
    address: str = ""
    generation: int = 0

    @property
    def known(self) -> bool:
        """Whether somebody leads."""
        return bool(self.generation)

    def holder(self) -> str:
        """As the lease names its holder."""
        return msgspec.json.encode([self.name, self.address]).decode()

    @staticmethod
    def of_holder(holder: str, generation: int) -> "Leader":
        """Read what ``holder`` has written; another writer's text is nobody's."""
        try:
            name, address = msgspec.json.decode(holder, type=tuple[str, str])
        except msgspec.MsgspecError:
            return NOBODY
        return Leader(name=name, address=address, generation=generation)


NOBODY = Leader()


class LeaderFile:
    """The file, for one reader or for its writer.

    Args:
        path: Path of the file, which need not exist.
    """

    def __init__(self, path: Path) -> None:
        self._file = PolledFile(path)
        self._now = NOBODY

    def look(self) -> Leader:
        """Returns who leads; cheap. What cannot be read leaves it as it was."""
        try:
            data = self._file.look()
            if data is not None:
                self._now = msgspec.json.decode(data, type=Leader)
        except (OSError, msgspec.MsgspecError):
            pass
        return self._now

    def write(self, leader: Leader) -> None:
        """Tell the receivers.

        Raises:
            StoreError: The file cannot be written.
        """
        self._now = leader
        self._file.write(msgspec.json.encode(leader))
