"""Spark masters: how many task slots they have, and which are refused before anything starts."""

import os

import pytest

from distributary.core.errors import SettingsError
from distributary.spark import check_master
from distributary.spark.master import TASK_FAILURES_MAX, answers, is_local, resolve, slots


def no_dial(_address, _timeout_s):
    """For masters that are not on the network."""
    raise AssertionError("nothing is to be dialled")


@pytest.mark.parametrize("partitions", [1, 2, 9, 64])
def test_the_default_has_a_slot_for_each_partition(partitions):
    """A partition is one task, which runs for the whole epoch."""
    assert resolve("auto", partitions) == f"local[{partitions},{TASK_FAILURES_MAX}]"
    check_master("auto", partitions, {}, no_dial)


@pytest.mark.parametrize(
    ("master", "given"),
    [
        ("local", f"local[1,{TASK_FAILURES_MAX}]"),
        ("local[3]", f"local[3,{TASK_FAILURES_MAX}]"),
        ("local[*]", f"local[*,{TASK_FAILURES_MAX}]"),
        ("local[3,7]", "local[3,7]"),
        ("spark://a:7077", "spark://a:7077"),
    ],
)
def test_a_local_master_survives_failures_of_one_partition(master, given):
    """Spark would end all tasks with the first that fails, unless told otherwise."""
    assert resolve(master, 2) == given


@pytest.mark.parametrize(
    ("master", "conf", "found"),
    [
        ("local", {}, 1),
        ("local[3]", {}, 3),
        ("local[8,4]", {}, 8),
        ("local[8]", {"spark.task.cpus": "3"}, 2),
        ("local[*]", {}, os.cpu_count()),
        ("local-cluster[2,3,1024]", {}, 6),
        ("spark://a:7077", {}, None),
        ("yarn", {}, None),
    ],
)
def test_slots_of_a_master(master, conf, found):
    """Where Spark alone can tell, nothing is said."""
    assert slots(master, conf) == found


@pytest.mark.parametrize(
    ("master", "conf"),
    [
        ("local", {}),
        ("local[1]", {}),
        ("local[8]", {"spark.task.cpus": "8"}),
        ("local-cluster[1,1,512]", {}),
    ],
)
def test_too_few_slots_are_refused_with_what_to_set(master, conf):
    """Else some partitions would never be delivered, and nothing would say so."""
    with pytest.raises(SettingsError, match=r"1 task slot, .* 2 partitions.*local\[2\]"):
        check_master(master, 2, conf, no_dial)


def test_a_master_that_does_not_answer_is_refused_with_the_reason():
    """Spark itself would try for a minute, and then for ever."""

    def refuse(_address, _timeout_s):
        raise ConnectionRefusedError(111, "Connection refused")

    with pytest.raises(SettingsError, match=r"answer \(a:1: Connection refused; b:2: Conn"):
        check_master("spark://a:1,b:2", 2, {}, refuse)


def test_one_master_of_several_is_enough():
    """The others stand by."""
    asked = []

    def answer(address, _timeout_s):
        asked.append(address)
        if address[0] == "a":
            raise TimeoutError("timed out")

    check_master("spark://a:1,b:2,c:3", 2, {}, answer)
    assert asked == [("a", 1), ("b", 2)]


@pytest.mark.parametrize("master", ["spark://a", "spark://a:x", "spark://:7077", "spark://a:0"])
def test_an_address_that_is_none_is_refused(master):
    """Before anything is dialled."""
    with pytest.raises(SettingsError, match="expected host:port"):
        check_master(master, 2, {}, no_dial)


@pytest.mark.parametrize(
    ("master", "address"),
    [("k8s://https://api:6443", ("api", 6443)), ("spark://[::1]:7077", ("::1", 7077))],
)
def test_where_a_master_is_looked_for(master, address):
    """The address in its URL."""
    asked = []
    check_master(master, 2, {}, lambda place, _timeout_s: asked.append(place))
    assert asked == [address]


def test_what_has_no_address_is_left_to_spark():
    """YARN's is in a configuration of its own."""
    check_master("yarn", 2, {}, no_dial)


def test_whether_a_master_answers_now():
    """One of several is enough, and one without an address is not asked."""
    there = {("b", 7077)}

    def dial(address, _timeout_s):
        if address not in there:
            raise ConnectionRefusedError(111, "Connection refused")

    assert answers("spark://a:7077,b:7077", dial)
    assert not answers("spark://a:7077", dial)
    assert answers("yarn", no_dial)


@pytest.mark.parametrize(("master", "local"), [("auto", True), ("local[2]", True), ("yarn", False)])
def test_which_masters_are_in_this_process(master, local):
    """Those need not be asked whether their executors see the data directory."""
    assert is_local(master) is local
