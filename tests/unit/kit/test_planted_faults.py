"""The list of faults that the soak plants fits the package as it stands."""

import pytest

from kit.planted_faults import FAULTS, places_of


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_can_be_planted(fault):
    """Its text stands once, in whatever module; what takes its place is another."""
    assert [path.name for path in places_of(fault.old)] == [places_of(fault.old)[0].name]
    assert fault.new != fault.old


def test_there_are_thirty_with_names_of_their_own():
    """Of the log, the filters, the engine and tokens."""
    names = [fault.name for fault in FAULTS]
    assert len(set(names)) == len(names) >= 30
