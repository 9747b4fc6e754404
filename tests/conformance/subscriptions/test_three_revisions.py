"""Examples of our own in the shape of each revision, from create to update to the stored form."""

import pytest

# One wish, as a client of each revision writes it.
WISH = {
    "004": {
        "source": "/shop/orders",
        "types": ["com.example.order.placed", "com.example.order.paid"],
        "config": {"start": "earliest"},
        "filters": [{"all": [{"exact": {"tenant": "blue"}}, {"suffix": {"subject": "/eu"}}]}],
        "sink": "https://sink.example.com/orders",
        "protocol": "HTTP",
        "protocolsettings": {"method": "PUT", "headers": {"X-From": "shop"}},
    },
    "003": {
        "source": "/shop/orders",
        "types": ["com.example.order.placed", "com.example.order.paid"],
        "config": {"start": "earliest"},
        "filter": {"all": [{"exact": {"tenant": "blue"}}, {"suffix": {"subject": "/eu"}}]},
        "sink": "https://sink.example.com/orders",
        "protocol": "HTTP",
        "protocolsettings": {"method": "PUT", "headers": {"X-From": "shop"}},
    },
    "000": {
        "id": "orders",
        "protocol": "HTTP",
        "protocolsettings": {"method": "PUT", "headers": {"X-From": "shop"}},
        "sink": "https://sink.example.com/orders",
        "filter": {
            "dialect": "basic",
            "conditions": [
                {"type": "exact", "property": "tenant", "value": "blue"},
                {"type": "suffix", "property": "subject", "value": "/eu"},
            ],
        },
    },
}
FIRST_HAS_NOT = ("source", "types", "config")


@pytest.mark.clause("subscriptions-api.revisions")
@pytest.mark.clause("subscriptions-api.create.realized")
@pytest.mark.clause("subscriptions-api.update.realized")
@pytest.mark.parametrize("revision", WISH)
def test_one_wish_is_stored_in_one_form_whatever_revision_wrote_it(sut, revision):
    """By create, by upsert and by update; read back, it is the newest revision's."""
    body = WISH[revision]
    expected = dict(WISH["004"])
    if revision == "000":
        expected = {name: expected[name] for name in expected if name not in FIRST_HAS_NOT}
    settings = expected.pop("protocolsettings")
    answers = [sut.ask("POST", "/subscriptions", body)]
    answers += [sut.ask("PUT", "/subscriptions/orders", body) for _ in range(2)]
    assert [answer.status for answer in answers] == [201, 201, 200]
    for answer in answers:
        realized = answer.json()
        assert realized == sut.ask("GET", f"/subscriptions/{realized['id']}").json()
        assert realized.items() >= expected.items()
        assert realized["protocolsettings"].items() >= settings.items()
        assert "filter" not in realized
    assert answers[0].json()["id"] != "orders"


@pytest.mark.parametrize("revision", WISH)
def test_an_update_may_speak_another_revision_than_the_create(sut, revision):
    """Clients of several revisions share a subscription; its route follows the last."""
    sut.put("orders", filters=[{"prefix": {"type": "old."}}])
    assert sut.ask("PUT", "/subscriptions/orders", WISH[revision]).status == 200
    assert list(sut.routes.applied(0)[-1].filters) == WISH["004"]["filters"]


# Settings of each protocol, as the texts describe them.
OTHER_PROTOCOLS = {
    "MQTT3": ("mqtt://b.example.com", {"topicname": "a/b", "qos": 2, "retain": True}),
    "MQTT5": (
        "mqtts://b.example.com",
        {"topicname": "a", "expiry": 9, "userproperties": {"k": "v"}},
    ),
    "AMQP": ("amqps://b.example.com", {"address": "queue", "sendersettlementmode": "settled"}),
    "KAFKA": ("kafka://b.example.com", {"topicname": "t", "acks": "1", "clientid": "c"}),
    "NATS": ("nats://b.example.com", {"subject": "orders.placed"}),
}


@pytest.mark.parametrize("protocol", OTHER_PROTOCOLS)
@pytest.mark.parametrize("revision", WISH)
def test_every_revision_takes_every_protocol(sut, revision, protocol):
    """Each with the settings that the texts describe; what was said is realized as it was said."""
    sink, settings = OTHER_PROTOCOLS[protocol]
    body = WISH[revision] | {"protocol": protocol, "sink": sink, "protocolsettings": settings}
    for method, path in (("POST", "/subscriptions"), ("PUT", "/subscriptions/orders")):
        answer = sut.ask(method, path, body)
        assert answer.status == 201, answer.body
        realized = answer.json()
        assert (realized["protocol"], realized["sink"]) == (protocol, sink)
        assert realized["protocolsettings"].items() >= settings.items()
