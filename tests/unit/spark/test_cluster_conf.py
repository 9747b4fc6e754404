"""Spark's settings for a cluster: rendered, and refused where secrets would travel in clear."""

import pytest

from distributary.core.errors import SettingsError
from distributary.spark.cluster_conf import (
    PROTECTION,
    SHARED_KEY,
    check_protection,
    cluster_conf,
    package_wanted,
    python_on_executors,
)

HOST = "node-1.example"
STANDALONE = "spark://master.example:7077"


def test_executors_reach_the_driver_at_this_node():
    """Neither loopback, which is their own machine's, nor whatever the machine calls itself."""
    conf = cluster_conf(HOST)
    assert conf["spark.driver.host"] == conf["spark.driver.bindAddress"] == HOST


def test_no_path_of_this_machine_stands_in_the_settings():
    """Executors have other disks."""
    assert [value for value in cluster_conf(HOST).values() if value.startswith("/")] == []


def test_executors_use_the_archive_of_classes_where_they_have_it():
    """A Java that does not find the file says nothing, and starts without."""
    options = cluster_conf(HOST, "/opt/env/share/classes.jsa")["spark.executor.extraJavaOptions"]
    assert "-XX:SharedArchiveFile=/opt/env/share/classes.jsa -Xshare:auto -Xlog:cds=off" in options
    assert "SharedArchive" not in cluster_conf(HOST)["spark.executor.extraJavaOptions"]


@pytest.mark.parametrize("master", ["yarn", "k8s://https://k.example:6443"])
def test_spark_makes_the_secret_where_it_can_bring_it(master):
    """On YARN and Kubernetes for each application."""
    check_protection(master, cluster_conf(HOST))


def test_a_standalone_cluster_needs_its_secret():
    """Its master and workers have it, and only the operator can bring it here."""
    with pytest.raises(SettingsError, match=SHARED_KEY):
        check_protection(STANDALONE, cluster_conf(HOST))
    check_protection(STANDALONE, cluster_conf(HOST) | {SHARED_KEY: "s"})


@pytest.mark.parametrize("name", list(PROTECTION))
def test_no_protection_can_be_turned_off(name):
    """Every fault is named at once: executors get passwords."""
    conf = cluster_conf(HOST) | {name: "false"}
    with pytest.raises(SettingsError, match=name) as caught:
        check_protection(STANDALONE, conf)
    assert SHARED_KEY in str(caught.value)


def test_an_operator_chooses_the_python_of_executors():
    """By name on their path, or one in an archive that Spark unpacks there."""
    assert python_on_executors({}) == "python3"
    assert python_on_executors({"spark.pyspark.python": "./env/bin/python"}) == "./env/bin/python"


def test_an_image_with_the_package_needs_no_other():
    """Its own path replaces ours."""
    assert package_wanted(cluster_conf(HOST))
    assert not package_wanted(cluster_conf(HOST) | {"spark.executorEnv.PYTHONPATH": "/opt/app"})
