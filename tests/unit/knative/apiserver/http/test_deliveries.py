"""How deliveries of Triggers go: shown to who reads, and stored nowhere."""

TRIGGERS = "/apis/eventing.knative.dev/v1/namespaces/default/triggers"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
NUMBERS = {"failing": True, "waiting": 3, "delivered": 7, "lastSuccess": "2026-11-23T10:00:00Z"}


def test_a_trigger_shows_how_its_deliveries_go(cluster):
    """By itself and in a list; one that has had none shows nothing."""
    made = cluster.trigger("a")
    cluster.trigger("b")
    uid = made["metadata"]["uid"]
    cluster.api.deliveries = {uid: NUMBERS}.get
    assert cluster.get(f"{TRIGGERS}/a")["status"]["deliveries"] == NUMBERS
    assert cluster.get(f"{TRIGGERS}/a")["metadata"] == made["metadata"]
    listed = cluster.get(TRIGGERS)["items"]
    assert [each.get("status", {}).get("deliveries") for each in listed] == [NUMBERS, None]


def test_the_table_has_a_column_for_what_fails(cluster):
    """The numbers come with ``-o wide``."""
    cluster.api.deliveries = {cluster.trigger("a")["metadata"]["uid"]: NUMBERS}.get
    cluster.trigger("b")
    table = cluster.get(TRIGGERS, accept=TABLE)
    names = [each["name"] for each in table["columnDefinitions"]]
    wide = {each["name"] for each in table["columnDefinitions"] if each["priority"]}
    rows = [dict(zip(names, row["cells"], strict=True)) for row in table["rows"]]
    assert [row["Failing"] for row in rows] == ["True", ""]
    assert (rows[0]["Waiting"], rows[0]["Delivered"]) == (3, 7)
    assert wide == {"Waiting", "Delivered", "Last_Success"}
