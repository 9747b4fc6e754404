"""Whatever a client of the Kubernetes-shaped API sends, it is read or refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.knative.apiserver.http._documents import find_document
from distributary.knative.apiserver.http._negotiation import choose_form, choose_type, read_accept
from distributary.knative.apiserver.http._options import read_list_options, read_write_options
from distributary.knative.apiserver.http._protobuf import read_protobuf
from distributary.knative.apiserver.http._target import read_target
from distributary.knative.apiserver.machinery import StatusError
from distributary.knative.kinds import KINDS

WORDS = st.sampled_from(
    ["", "api", "apis", "v1", "watch", "namespaces", "status", "a", "x.y", "eventing.knative.dev"]
    + [kind.plural for kind in KINDS]
)
NUMBERS = ("limit", "timeoutSeconds", "resourceVersion")
SWITCHES = ("watch", "force", "sendInitialEvents", "allowWatchBookmarks")
CHOICES = ("dryRun", "resourceVersionMatch", "fieldManager", "fieldValidation", "continue")
PARAMETERS = st.sampled_from([*NUMBERS, *SWITCHES, *CHOICES])
ACCEPTS = st.text(alphabet='ajsonplict/*;,=qv1 "Tbe', max_size=60)


@given(st.lists(WORDS, max_size=9))
def test_any_path_names_something_or_nothing(words):
    """A name stands exactly where its kind wants one; nobody gets an object of another place."""
    path = "/" + "/".join(words)
    target = read_target(path)
    find_document(path)
    if target is None:
        return
    assert target.kind in KINDS
    assert not (target.namespace and not target.kind.namespaced)
    if target.name:
        assert bool(target.namespace) is target.kind.namespaced
    assert not target.subresource or target.name
    assert [target.namespace, target.name] == [
        word if word in words else "" for word in (target.namespace, target.name)
    ]


@given(st.dictionaries(PARAMETERS, st.text(max_size=25)), st.booleans(), st.text(max_size=150))
def test_any_parameters_are_read_or_refused(query, watched, agent):
    """What is read keeps its bounds."""
    try:
        options = read_list_options(query, watched=watched)
    except StatusError as error:
        assert error.status in (400, 422)  # noqa: PT017 - both ways are right
    else:
        assert options.limit >= 0
        assert options.timeout_s is None or 0 < options.timeout_s <= 24 * 3600
    try:
        write = read_write_options(query, agent, "PatchOptions")
    except StatusError as error:
        assert error.status == 422  # noqa: PT017 - both ways are right
    else:
        assert 1 <= len(write.manager) <= 128


@given(ACCEPTS | st.text(max_size=30))
def test_any_accept_is_met_or_406(accept):
    """Ranges come most wanted first."""
    read_accept(accept)
    for choose in (choose_form, lambda text: choose_type(text, ("application/json",))):
        try:
            choose(accept)
        except StatusError as error:
            assert error.status == 406  # noqa: PT017 - both ways are right


@given(st.binary(max_size=200))
def test_any_protobuf_is_an_object_or_refused(body):
    """No other error, whatever the bytes are."""
    for sent in (body, b"k8s\0" + body, _config_map(body)):
        try:
            assert isinstance(read_protobuf(sent), dict)
        except StatusError as error:
            assert error.status in (400, 415)  # noqa: PT017 - both ways are right


def _config_map(raw):
    """An envelope that is right around *raw*."""
    type_ = b"\n\x02v1\x12\x09ConfigMap"
    head = b"k8s\0\n" + bytes([len(type_)]) + type_ + b"\x12"
    length = bytes([len(raw) & 0x7F | 0x80, len(raw) >> 7])
    return head + length + raw


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind)
def test_every_kind_has_its_paths(kind):
    """Collection, member and status, where they stand."""
    group = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    place = f"{group}/namespaces/n" if kind.namespaced else group
    assert read_target(f"{group}/{kind.plural}") is not None
    member = read_target(f"{place}/{kind.plural}/x")
    assert (member.kind, member.name) == (kind, "x")
    status = read_target(f"{place}/{kind.plural}/x/status")
    assert (status is not None) is kind.has_status
