"""Signed subscriptions over HTTP: secrets in answers, and rotation."""

PATH = "/subscriptions/a/signature/rotate"
V1 = {"signature": {"scheme": "v1"}}


def signature(answer):
    """``protocolsettings.signature`` of a response."""
    return answer.json()["protocolsettings"]["signature"]


def test_a_secret_is_shown_once_and_stored_by_no_cache(api):
    """In the responses to POST, to PUT and to a rotation."""
    posted = api.send(
        "POST",
        "/subscriptions",
        {"sink": "http://127.0.0.1:9/", "protocol": "HTTP", "protocolsettings": V1},
    )
    put = api.put("a", protocolsettings=V1)
    rotated = api.request("POST", PATH)
    assert [each.status for each in (posted, put, rotated)] == [201, 201, 200]
    secrets = [signature(each)["secret"] for each in (posted, put, rotated)]
    assert len(set(secrets)) == 3
    for each in (posted, put, rotated):
        assert each.headers["cache-control"] == "no-store"
    for path in ("/subscriptions", "/subscriptions/a", "/subscriptions/a/status", "/", "/metrics"):
        assert "whsec_" not in api.request("GET", path).body.decode()
    assert "secret" not in signature(api.put("a", protocolsettings=V1))
    assert "whsec_" not in api.request("DELETE", "/subscriptions/a").body.decode()


def test_a_rotation_answers_with_the_new_tag(api):
    """So that two rotations by two people do not both succeed."""
    tag = api.put("a", protocolsettings=V1).headers["etag"]
    rotated = api.request("POST", PATH, b"", (("if-match", tag),))
    assert rotated.status == 200
    assert rotated.headers["etag"] == api.request("GET", "/subscriptions/a").headers["etag"] != tag
    refused = api.request("POST", PATH, b"", (("if-match", tag),))
    assert (refused.status, refused.json()["code"]) == (412, "conflict")
    assert len(signature(rotated)["keys"]) == 2


def test_a_rotation_takes_its_overlap_and_scheme(api):
    """As JSON, or no body at all."""
    api.put("a", protocolsettings=V1)
    rotated = api.send("POST", PATH, {"overlap": "PT0S", "scheme": "v1a"})
    (key,) = signature(rotated)["keys"]
    assert key["publickey"].startswith("whpk_")
    refused = api.send("POST", PATH, {"overlap": "P8D"})
    assert (refused.status, refused.json()["faults"][0]["path"]) == (400, "$.overlap")
    assert api.request("POST", PATH, b"{}").status == 415


def test_what_cannot_be_rotated_says_why(api):
    """No such subscription, or an unsigned one."""
    assert api.request("POST", PATH).status == 404
    api.put("a")
    refused = api.request("POST", PATH)
    assert (refused.status, refused.json()["faults"][0]["code"]) == (400, "missing")


def test_a_key_of_another_namespace_is_not_rotated(api):
    """Whatever is called the same there."""
    body = {"sink": "http://127.0.0.1:9/", "protocol": "HTTP", "protocolsettings": V1}
    made = api.send("PUT", "/namespaces/shop/subscriptions/a", body)
    assert made.status == 201
    assert api.request("POST", PATH).status == 404
    rotated = api.request("POST", "/namespaces/shop" + PATH)
    assert rotated.status == 200
    assert len(signature(rotated)["keys"]) == 2
