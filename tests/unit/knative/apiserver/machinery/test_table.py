"""Tables, ages, statuses and warnings: what kubectl prints."""

import pytest

from distributary.knative.apiserver.machinery import Cause, StatusError, conflict, invalid
from distributary.knative.apiserver.machinery.status import (
    status_of,
    success_status,
    warning_header,
)
from distributary.knative.apiserver.machinery.table import age, list_metadata, partial, table
from distributary.knative.kinds import BROKER, EVENT, TRIGGER

THEN = "2026-01-01T00:00:00Z"
THEN_MS = 1_767_225_600_000

TRIGGER_OBJ = {
    "metadata": {"name": "t", "creationTimestamp": THEN, "resourceVersion": "9"},
    "spec": {"broker": "default"},
    "status": {"conditions": [{"type": "X"}, {"type": "Ready", "status": "False", "reason": "No"}]},
}


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "<invalid>"),
        (-1, "0s"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (302, "5m2s"),
        (600, "10m"),
        (3 * 3600 - 1, "179m"),
        (3 * 3600, "3h"),
        (3 * 3600 + 61, "3h1m"),
        (8 * 3600 + 61, "8h"),
        (48 * 3600, "2d"),
        (53 * 3600, "2d5h"),
        (8 * 86400 + 7200, "8d"),
        (2 * 365 * 86400 + 86400, "2y1d"),
        (9 * 365 * 86400, "9y"),
    ],
)
def test_ages_are_written_as_kubectl_does(seconds, text):
    """Two units at most, the second one only while the first is small."""
    assert age(THEN, THEN_MS + seconds * 1000) == text


def test_what_is_no_time_has_no_age():
    """No error: a table shows what there is."""
    assert age("yesterday", THEN_MS) == "<unknown>"


def test_the_class_of_a_broker_is_in_the_wide_table():
    """An annotation, whose name has dots."""
    metadata = {"name": "b", "annotations": {"eventing.knative.dev/broker.class": "Kafka"}}
    shown = table(BROKER, [{"metadata": metadata}], now_ms=0)
    column = shown["columnDefinitions"][-1]
    assert (column["name"], column["priority"]) == ("Class", 1)
    assert shown["rows"][0]["cells"][-1] == "Kafka"
    bare = table(BROKER, [{"metadata": {"name": "b"}}], now_ms=0)
    assert bare["rows"][0]["cells"][-1] == ""


def test_a_table_has_the_columns_of_the_kind():
    """The cells are as many as the columns; absent values are empty."""
    made = table(TRIGGER, [TRIGGER_OBJ], now_ms=THEN_MS + 5000, list_version=12, continue_token="c")
    names = [column["name"] for column in made["columnDefinitions"]]
    assert names == [
        *("Name", "Broker", "Subscriber_URI", "Age", "Ready", "Reason", "Failing"),
        *("Waiting", "Delivered", "Last_Success"),
    ]
    nothing = ["", "", "", "<unknown>"]  # delivered yet
    assert made["rows"][0]["cells"] == ["t", "default", "", "5s", "False", "No", *nothing]
    assert made["metadata"] == {"resourceVersion": "12", "continue": "c"}
    assert (made["kind"], made["apiVersion"]) == ("Table", "meta.k8s.io/v1")


@pytest.mark.parametrize(
    ("include", "expected"),
    [
        ("None", None),
        ("Object", TRIGGER_OBJ),
        ("Metadata", partial(TRIGGER_OBJ, "v1beta1")),
    ],
)
def test_a_row_has_as_much_of_the_object_as_was_asked_for(include, expected):
    """Its version is that of the only object, where no list has one."""
    made = table(TRIGGER, [TRIGGER_OBJ], now_ms=0, include=include, version="v1beta1")
    assert made["rows"][0]["object"] == expected
    assert made["metadata"]["resourceVersion"] == "9"


def test_a_missing_time_is_unknown():
    """As kubectl writes it."""
    made = table(EVENT, [{"metadata": {"name": "e"}}], now_ms=0)
    assert made["rows"][0]["cells"] == ["e", "<unknown>", "", "", "", ""]


def test_how_many_are_left_stands_only_in_a_part_of_a_list():
    """Without ``continue`` nothing is left."""
    assert list_metadata(5, "", 3) == {"resourceVersion": "5"}
    assert list_metadata(5, "c", 3) == {
        "resourceVersion": "5",
        "continue": "c",
        "remainingItemCount": 3,
    }


def test_a_refusal_is_a_status_with_every_cause():
    """Kubectl prints the causes with their fields."""
    causes = [Cause("spec.a", "FieldValueInvalid", "x"), Cause("", "FieldValueRequired", "y")]
    error = invalid(TRIGGER, "t", causes)
    assert str(error) == 'Trigger.eventing.knative.dev "t" is invalid: [spec.a: x, y]'
    assert status_of(error, TRIGGER, "t") == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": str(error),
        "reason": "Invalid",
        "details": {
            "name": "t",
            "group": "eventing.knative.dev",
            "kind": "Trigger",
            "causes": [
                {"field": "spec.a", "reason": "FieldValueInvalid", "message": "x"},
                {"reason": "FieldValueRequired", "message": "y"},
            ],
        },
        "code": 422,
    }


def test_a_status_says_when_to_try_again():
    """Beside the header."""
    status = status_of(StatusError("TooManyRequests", "slow down", retry_after_s=2))
    assert status["details"] == {"retryAfterSeconds": 2}
    assert "details" not in status_of(StatusError("BadRequest", "no"))


def test_a_conflict_names_the_plural():
    """Clients read it there."""
    assert status_of(conflict(TRIGGER, "t"), TRIGGER, "t")["details"]["kind"] == "triggers"


def test_a_delete_is_answered_with_success():
    """With the uid of what is gone."""
    status = success_status(TRIGGER, "t", "u")
    assert status["status"] == "Success"
    assert status["details"]["uid"] == "u"


def test_a_warning_is_one_quoted_ascii_line():
    """A header cannot carry more."""
    assert warning_header('unknown field "spec.é"\n\\') == (
        '299 - "unknown field \\"spec.?\\" \\\\"'
    )
