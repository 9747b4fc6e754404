"""Subscriptions API 3.2.2: protocol settings; HTTP's, and what all protocols have."""

import pytest


@pytest.mark.clause("subscriptions-api.settings.http.headers")
def test_custom_headers_are_supported(sut):
    """They are part of the realized object, as they were written."""
    realized = sut.create(protocolsettings={"headers": {"X-Tenant": "a"}}).json()
    assert realized["protocolsettings"]["headers"] == {"X-Tenant": "a"}


@pytest.mark.clause("subscriptions-api.settings.http.method")
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH"])
def test_the_method_can_be_set(sut, method):
    """Any that hands something over."""
    realized = sut.create(protocolsettings={"method": method}).json()
    assert realized["protocolsettings"]["method"] == method


@pytest.mark.clause("subscriptions-api.settings.http.headers.optional")
@pytest.mark.clause("subscriptions-api.settings.http.method.optional")
@pytest.mark.clause("subscriptions-api.settings.optional")
@pytest.mark.parametrize("members", [{}, {"protocolsettings": {}}], ids=["absent", "empty"])
def test_settings_have_defaults(sut, members):
    """No headers, and POST."""
    settings = sut.create(**members).json()["protocolsettings"]
    assert (settings["headers"], settings["method"]) == ({}, "POST")


@pytest.mark.clause("subscriptions-api.settings.more")
def test_there_are_more_settings_than_the_text_names(sut):
    """The content mode, and how a delivery is retried (decision 21)."""
    delivery = {
        "retry": 3,
        "backoffPolicy": "linear",
        "backoffDelay": "PT1S",
        "backoffMax": "PT1M",
        "timeout": "PT5S",
        "rateLimit": 10,
    }
    settings = {"format": "structured", "delivery": delivery}
    realized = sut.create(protocolsettings=settings).json()["protocolsettings"]
    assert realized == {"headers": {}, "method": "POST"} | settings


@pytest.mark.parametrize(
    ("settings", "path"),
    [
        ({"method": "GET"}, "$.protocolsettings.method"),
        ({"method": "post"}, "$.protocolsettings.method"),
        ({"headers": {"a b": "c"}}, '$.protocolsettings.headers["a b"]'),
        ({"headers": []}, "$.protocolsettings.headers"),
        ({"topicname": "t"}, "$.protocolsettings.topicname"),
        ({"qos": 1}, "$.protocolsettings.qos"),
        ({"subject": "s"}, "$.protocolsettings.subject"),
        ("POST", "$.protocolsettings"),
    ],
    ids=repr,
)
def test_settings_that_do_not_apply_are_invalid(sut, settings, path):
    """Another protocol's settings, and values of no use (decision 27)."""
    assert list(sut.faults(sut.create(protocolsettings=settings))) == [path]
