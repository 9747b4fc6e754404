"""Every kind of fault is found, named and placed; all of them at once."""

import dataclasses
from collections.abc import Sequence

import pytest

from distributary.core.errors import Fault, ResourceError
from distributary.core.filter import check
from distributary.resource import ResourceRules, SinkRule
from distributary.subscriptions import resource as api_subscription
from kit.subscription_faults import CASES, TABLE, Case, Mark


def faults_in(case: Case, *, kept: bool = False, local: bool = False) -> Sequence[Fault]:
    """What the parser finds; nothing where it takes the document."""
    rules = ResourceRules(SinkRule(local_allowed=local), check)
    try:
        api_subscription.parse(case.body, rules, secrets_kept=kept)
    except ResourceError as error:
        return error.faults
    return ()


@pytest.mark.parametrize("local", [False, True], ids=["public", "local"])
@pytest.mark.parametrize("kept", [False, True], ids=["create", "update"])
@pytest.mark.parametrize("group", TABLE)
def test_exactly_the_faults_of_each_document_are_named(group, kept, local):
    """Where they are, all of them at once, and nothing else; whatever sinks are allowed."""
    cases = [case for case in TABLE[group] if case.holds(kept=kept, local=local)]
    found = {
        case.name: tuple(
            (fault.path, fault.code) for fault in faults_in(case, kept=kept, local=local)
        )
        for case in cases
    }
    assert found == {case.name: case.faults for case in cases}


def test_messages_help_and_repeat_no_secret():
    """A hint, or a place in an expression; nor a long text: they travel into answers and logs."""
    told = [(case, fault.message) for case in CASES for fault in faults_in(case)]
    assert [case.name for case, text in told if "canary" in text] == []
    assert [case.name for case, text in told if len(text) > 500] == []
    assert [
        (case.name, part) for case, text in told for part in case.says if part not in text
    ] == []


def test_local_sinks_are_good_where_they_are_allowed():
    """The same documents: nothing else is wrong with them."""
    cases = [case for case in CASES if Mark.PUBLIC in case.marks]
    assert cases
    assert [case.name for case in cases if faults_in(case, local=True)] == []


def test_the_limits_themselves_are_allowed(parse):
    """A limit is the last good value."""
    headers = {f"a{n}": "x" for n in range(99)} | {"last": ""}
    room = 8192 - sum(len(name) + len(value) for name, value in headers.items())
    headers["last"] = "y" * room
    spec = parse(
        types=["t" * 1024] * 1000,
        protocolsettings={
            "headers": headers,
            "delivery": {
                "retry": 1000,
                "timeout": "PT10M",
                "backoffDelay": "PT0S",
                "backoffMax": "P7D",
                "rateLimit": 1_000_000,
            },
        },
    )
    assert len(spec.settings.headers) == 100


def test_a_protocol_that_is_not_installed_says_what_it_needs(rules):
    """It is told apart from nonsense, and nothing else is said: its settings need not fit."""
    lacking = dataclasses.replace(rules, protocols_absent={"AMQP": "needs the extra x[amqp]"})
    body = {"sink": "x://e.com", "protocol": "AMQP", "protocolsettings": {"anything": 1}}
    with pytest.raises(ResourceError, match=r"needs the extra x\[amqp\]") as caught:
        api_subscription.parse(body, lacking)
    assert [(f.path, f.code) for f in caught.value.faults] == [("$.protocol", "unsupported")]
