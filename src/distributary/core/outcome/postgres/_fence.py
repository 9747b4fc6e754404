"""The fence of a partition's owner in PostgreSQL: compared inside each of its transactions."""

from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.engine import Connection, Engine

from distributary.core import database, postgres_lease
from distributary.core.errors import FencedError
from distributary.core.outcome.postgres._tables import partition_owner

_owner = partition_owner.c


@dataclass(frozen=True, slots=True)
class PartitionFence:
    """Who may write for a partition.

    Attributes:
        partition: Its number.
        generation: Of the lease.
        token: Of this taking of it.
    """

    partition: int
    generation: int
    token: str

    @property
    def mine(self) -> sa.ColumnElement[bool]:
        """Condition on ``partition_owner``: this is the newest owner."""
        return sa.and_(
            _owner.partition == self.partition,
            _owner.generation == self.generation,
            _owner.token == self.token,
        )

    def raise_in(self, connection: Connection) -> int:
        """Fence all owners before this one; returns the number of the last flush.

        Waits for a transaction of theirs that is under way.

        Raises:
            FencedError: A later one has the partition.
        """
        values = {"generation": self.generation, "token": self.token}
        added = insert(partition_owner).values(partition=self.partition, n=0, **values)
        raised = added.on_conflict_do_update(
            index_elements=["partition"],
            set_=values,
            where=sa.or_(_owner.generation < self.generation, self.mine),
        )
        number = connection.execute(raised.returning(_owner.n)).scalar()
        if number is None:
            raise self.lost()
        return int(number)

    def check_in(self, connection: Connection) -> None:
        """Compare, first of all in a transaction: later owners wait until it has ended.

        Raises:
            FencedError: There is a later one.
        """
        held = sa.select(_owner.n).where(self.mine).with_for_update(read=True)
        if connection.execute(held).scalar() is None:
            raise self.lost()

    def lost(self) -> FencedError:
        """The error of who writes although there is a later owner."""
        return FencedError(
            f"partition {self.partition} has another owner than generation {self.generation}"
        )


def usurp_partition(writer: Engine, partition: int, generation: int) -> bool:
    """Take a partition from the owner of *generation*, who is known to be dead, for the next one.

    Its lease is free at once, and whatever that owner still writes is refused.

    Args:
        writer: Of ``database.open_writer``.
        partition: Its number.
        generation: Of the lease of that owner.

    Returns:
        False where another one has it by now: nothing was changed.

    Raises:
        StoreError: The database failed.
    """
    name = postgres_lease.partition_lease(partition)
    with database.writing(writer) as connection:
        fencing = postgres_lease.usurp(connection, name, generation)
        if fencing is None:
            return False
        mine = sa.and_(_owner.partition == partition, _owner.generation < fencing)
        fenced = partition_owner.update().where(mine).values(generation=fencing, token="")
        connection.execute(fenced)
        return True
