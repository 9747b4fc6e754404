"""The table of faults by HTTP and by AMQP: what the parser says arrives, whole and in its order."""

import json

from kit.published_schemas import validator
from kit.subscription_faults import SENT


def test_each_faulty_document_is_refused_with_its_faults(either):
    """On create, as problem details; nothing is stored."""
    problem = validator("Problem")
    answers = {
        case.name: either.ask_raw("POST", "/subscriptions", json.dumps(case.body).encode())
        for case in SENT
    }
    assert {name: (answer.status, answer.json()["code"]) for name, answer in answers.items()} == {
        case.name: (400, "invalid") for case in SENT
    }
    assert {
        name: [(fault["path"], fault["code"]) for fault in answer.json()["faults"]]
        for name, answer in answers.items()
    } == {case.name: list(case.faults) for case in SENT}
    assert [name for name, answer in answers.items() if not problem.is_valid(answer.json())] == []
    assert either.ask("GET", "/subscriptions").json() == []
