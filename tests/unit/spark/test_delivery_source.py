"""The numbers of Spark's counter, and what each tells a task."""

import pytest

from distributary.spark.delivery_source import task_of


@pytest.mark.parametrize("partitions", [1, 2, 7])
def test_each_epoch_has_one_task_for_each_partition(partitions: int) -> None:
    """The counter advances by the number of partitions: as many numbers are one epoch."""
    for epoch in range(1, 4):
        first = (epoch - 1) * partitions
        tasks = [task_of(number, partitions) for number in range(first, first + partitions)]

        assert tasks == [(partition, epoch) for partition in range(partitions)]
