"""What a write does, what it refuses, and what stands after a restart."""

import asyncio
import json

import pytest

from distributary.knative.apiserver.machinery import Key, StatusError
from distributary.knative.apiserver.objects import Write
from distributary.knative.kinds import BROKER, NAMESPACE, SERVICE, TRIGGER


def key(kind, name, namespace="default") -> Key:
    """Key of an object."""
    return Key(kind.resource, namespace, name)


def with_spec(**spec):
    """A change that sets the spec."""
    return lambda content: {**content, "spec": spec}


def test_a_new_store_has_the_default_namespace_and_broker(world):
    """Both are made once, by the usual rules."""
    assert world.names(NAMESPACE) == [("", "default")]
    assert world.names(BROKER) == [("default", "default")]
    broker = world.objects.find(key(BROKER, "default"))
    assert broker.content["spec"] == {"class": "usual"}
    assert world.objects.version == 2


def test_a_deleted_default_broker_stays_deleted_after_a_restart(world):
    """Nobody brings back what somebody deleted."""
    world.delete(key(BROKER, "default"))
    world.restart()
    assert world.names(BROKER) == []


def test_a_create_sets_what_only_the_server_may_say(world):
    """Uid, version, generation and time of birth; the JSON is that of the content."""
    made = world.trigger("t", broker="default")
    metadata = made.content["metadata"]
    assert metadata["uid"] == made.uid
    assert metadata["resourceVersion"] == str(made.version) == "3"
    assert metadata["generation"] == 1
    assert metadata["creationTimestamp"] == "2023-11-14T22:13:20Z"
    assert json.loads(made.json) == made.content
    assert world.objects.find(key(TRIGGER, "t")) is made


def test_what_was_answered_stands_after_a_restart(world):
    """Objects, versions and uids are those of before."""
    made = world.trigger("t", broker="default")
    world.delete(world.trigger("gone").key)
    version = world.objects.version
    world.restart()
    assert world.objects.find(key(TRIGGER, "t")) == made
    assert world.objects.version == version
    assert world.objects.get(key(TRIGGER, "gone")) is None


def test_a_recreated_object_has_another_uid(world):
    """The key is the same, the incarnation is not."""
    first = world.trigger("t")
    world.delete(first.key)
    assert world.trigger("t").uid != first.uid


def test_a_name_that_is_taken_is_refused(world):
    """AlreadyExists, in Kubernetes' words."""
    world.trigger("t")
    content = {"metadata": {"name": "t"}}
    error = world.refused(world.objects.create(TRIGGER, "default", content))
    assert (error.reason, str(error)) == (
        "AlreadyExists",
        'triggers.eventing.knative.dev "t" already exists',
    )


def test_generate_name_draws_free_names(world):
    """The prefix and five characters, another time others."""
    content = {"metadata": {"generateName": "t-"}}
    names = {
        world.run(world.objects.create(TRIGGER, "default", content)).key.name for _ in range(20)
    }
    assert len(names) == 20
    assert all(len(name) == 7 and name.startswith("t-") for name in names)


def test_what_is_not_there_is_not_found(world):
    """Reading, editing and deleting say so alike."""
    words = 'triggers.eventing.knative.dev "t" not found'
    with pytest.raises(StatusError, match=words) as caught:
        world.objects.find(key(TRIGGER, "t"))
    assert caught.value.reason == "NotFound"
    assert str(world.refused(world.objects.edit(key(TRIGGER, "t"), dict))) == words
    assert str(world.refused(world.objects.delete(key(TRIGGER, "t")))) == words
    service = key(SERVICE, "s")
    assert str(world.refused(world.objects.delete(service))) == 'services "s" not found'


def test_an_edit_adds_a_version_and_a_generation(world):
    """The uid stays."""
    made = world.trigger("t", a=1)
    edited = world.edit(made.key, with_spec(a=2))
    assert edited.version == made.version + 1
    assert edited.uid == made.uid
    assert edited.content["metadata"]["generation"] == 2
    assert made.content["spec"] == {"a": 1}


def test_an_edit_without_effect_writes_nothing(world):
    """Same version, nobody is told."""
    made = world.trigger("t", a=1)
    world.told.clear()
    assert world.edit(made.key, with_spec(a=1)) is made
    assert world.told == []


def test_true_and_one_differ(world):
    """An edit from 1 to true is an edit, though Python calls them equal."""
    made = world.trigger("t", a=1)
    assert world.edit(made.key, with_spec(a=True)).content["spec"]["a"] is True


def test_edits_of_one_batch_build_on_one_another(world):
    """A patch never loses a race: each sees what the one before it left."""
    made = world.trigger("t", count=0)

    async def race():
        def add(content):
            return {**content, "spec": {"count": content["spec"]["count"] + 1}}

        await asyncio.gather(*(world.objects.edit(made.key, add) for _ in range(50)))

    world.run(race())
    assert world.objects.find(made.key).content["spec"] == {"count": 50}


def test_a_refused_write_leaves_its_neighbours_alone(world):
    """Each request of a batch is made or refused for itself."""

    async def race():
        def create(name, **spec):
            content = {"metadata": {"name": name}, "spec": spec}
            return world.objects.create(TRIGGER, "new", content)

        return await asyncio.gather(
            create("a"), create("b", bad=True), create("c", bug=True), create("d"),
            return_exceptions=True,
        )  # fmt: skip

    first, bad, bug, last = world.run(race())
    assert isinstance(bad, StatusError)
    assert isinstance(bug, ZeroDivisionError)
    assert world.names(TRIGGER) == [("new", "a"), ("new", "d")]
    assert last.version == first.version + 1


def test_a_refused_create_makes_no_namespace(world):
    """Half a request is none."""
    refused = world.objects.create(
        TRIGGER, "new", {"metadata": {"name": "t"}, "spec": {"bad": True}}
    )
    world.refused(refused)
    assert world.names(NAMESPACE) == [("", "default")]


def test_faults_of_metadata_and_spec_are_named_together(world):
    """Two rooms look for faults; one answer names them."""
    content = {"metadata": {"name": "Not A Name"}, "spec": {"bad": True}}
    error = world.refused(world.objects.create(TRIGGER, "default", content))
    assert error.reason == "Invalid"
    assert {cause.field for cause in error.causes} == {"metadata.name", "spec.bad"}


@pytest.mark.parametrize(
    "metadata",
    [None, {}, {"name": 1}, {"name": ["x"]}, {"name": {}}, {"generateName": 1}, {"labels": [1]}],
    ids=repr,
)
def test_any_metadata_is_taken_or_refused(world, metadata):
    """Never a bug."""
    for kind, namespace in ((TRIGGER, "default"), (NAMESPACE, "")):
        content = {"metadata": metadata}
        assert world.refused(world.objects.create(kind, namespace, content)).status in (400, 422)


def test_a_put_creates_or_edits(world):
    """The change sees None where there is nothing."""
    seen = []

    def change(content):
        seen.append(content)
        return {**(content or {}), "spec": {"n": len(seen)}}

    stored, created = world.run(world.objects.put(key(TRIGGER, "t"), change))
    assert created
    assert stored.key.name == "t"
    again, created = world.run(world.objects.put(key(TRIGGER, "t"), change))
    assert not created
    assert again.content["spec"] == {"n": 2}
    assert seen == [None, stored.content]


def test_preconditions_are_held(world):
    """Uid and version of a delete, as DeleteOptions give them."""
    made = world.trigger("t")
    for write in (Write(uid="other"), Write(version=made.version - 1)):
        error = world.refused(world.objects.delete(made.key, write))
        assert error.reason == "Conflict"
        assert "Precondition failed" in str(error)
    assert world.delete(made.key, Write(uid=made.uid, version=made.version)).uid == made.uid


def test_a_put_with_preconditions_creates_nothing(world):
    """Who names a uid believes that the object is there."""
    error = world.refused(world.objects.put(key(TRIGGER, "t"), lambda _: {}, Write(uid="u")))
    assert error.reason == "Conflict"


def test_a_conflicting_version_in_the_content_is_refused(world):
    """The optimistic lock of the Kubernetes API."""
    made = world.trigger("t", a=1)
    world.edit(made.key, with_spec(a=2))
    error = world.refused(world.objects.edit(made.key, lambda _: made.content))
    assert error.reason == "Conflict"
    assert "the object has been modified" in str(error)


def test_a_dry_run_answers_as_if_and_stores_nothing(world):
    """Create, edit, delete."""
    made = world.trigger("t", a=1)
    version = world.objects.version
    dry = Write(dry_run=True)
    created = world.trigger("u", "elsewhere", write=dry)
    assert created.version == 0
    assert "resourceVersion" not in created.content["metadata"]
    assert json.loads(created.json) == created.content
    edited = world.edit(made.key, with_spec(a=2), dry)
    assert edited.content["spec"] == {"a": 2}
    assert edited.content["metadata"]["resourceVersion"] == str(made.version)
    assert world.delete(made.key, dry).uid == made.uid
    assert world.objects.version == version
    assert world.objects.find(made.key) is made
    assert world.names(NAMESPACE) == [("", "default")]
    world.refused(world.objects.create(TRIGGER, "default", {"spec": {}}, dry))


def test_a_dry_run_leaves_nothing_to_its_neighbours(world):
    """Another request of the same batch does not see it."""

    async def race():
        content = {"metadata": {"name": "t"}}
        return await asyncio.gather(
            world.objects.create(TRIGGER, "new", content, Write(dry_run=True)),
            world.objects.create(TRIGGER, "new", content),
        )

    _, made = world.run(race())
    assert made.version == 4
    assert world.names(TRIGGER) == [("new", "t")]


def test_writes_of_the_server_keep_the_generation_and_are_not_admitted(world):
    """A status is written whatever became of the rules."""
    made = world.trigger("t", a=1)

    def status(content):
        return {**content, "spec": {"bad": True}, "status": {"conditions": []}}

    edited = world.edit(made.key, status, Write(by_server=True))
    assert edited.content["status"] == {"conditions": []}
    assert edited.content["metadata"]["generation"] == 1


def test_the_status_is_written_by_its_subresource_alone(world):
    """And that writes nothing else."""
    made = world.trigger("t", a=1)

    def both(content):
        return {**content, "spec": {"a": 2}, "status": {"x": 1}}

    edited = world.edit(made.key, both)
    assert "status" not in edited.content
    edited = world.edit(made.key, lambda _: {"spec": {"a": 3}, "status": {"x": 2}},
                        Write(subresource="status"))  # fmt: skip
    assert edited.content["spec"] == {"a": 2}
    assert edited.content["status"] == {"x": 2}


def test_many_edits_share_a_transaction(world):
    """Each has its own outcome."""
    made = [world.trigger(name) for name in "abc"]
    world.delete(made[1].key)
    edits = [(each.key, with_spec(n=1)) for each in made]
    first, missing, last = world.run(world.objects.edit_all(edits, Write(by_server=True)))
    assert first.content["spec"] == last.content["spec"] == {"n": 1}
    assert missing.reason == "NotFound"
    assert world.run(world.objects.edit_all([])) == []


def test_finalizers_keep_an_object_until_the_last_is_gone(world):
    """Marked first; an edit that leaves none ends it."""
    made = world.make(TRIGGER, "t", metadata={"finalizers": ["a.b/c", "a.b/d"]})
    marked = world.delete(made.key)
    metadata = marked.content["metadata"]
    assert metadata["deletionTimestamp"] == "2023-11-14T22:13:20Z"
    assert metadata["deletionGracePeriodSeconds"] == 0
    assert metadata["generation"] == 2
    assert world.delete(made.key) is marked

    def keep(*finalizers):
        return lambda content: {
            **content,
            "metadata": {**content["metadata"], "finalizers": list(finalizers)},
        }

    assert world.edit(made.key, keep("a.b/d")).version == marked.version + 1
    world.told.clear()
    last = world.edit(made.key, keep())
    assert world.objects.get(made.key) is None
    assert [change.type for change in world.told] == ["DELETED"]
    assert last.version == world.objects.version
    world.restart()
    assert world.objects.get(made.key) is None


def test_listeners_hear_every_change_in_order(world):
    """With what stood before; after the commit."""
    world.told.clear()
    made = world.trigger("t", "new", a=1)
    edited = world.edit(made.key, with_spec(a=2))
    deleted = world.delete(made.key)
    assert [(each.type, each.stored.key.name) for each in world.told] == [
        ("ADDED", "new"), ("ADDED", "t"), ("MODIFIED", "t"), ("DELETED", "t"),
    ]  # fmt: skip
    assert [each.stored.version for each in world.told] == [3, 4, 5, 6]
    assert [each.before for each in world.told] == [None, None, made, edited]
    assert deleted.content["spec"] == {"a": 2}
    assert deleted.content["metadata"]["resourceVersion"] == "6"


def test_a_listener_with_a_bug_keeps_nobody_from_hearing(world):
    """The write is answered, the next listener is told."""

    def broken(_change):
        raise ZeroDivisionError

    heard = []
    world.objects.on_change(broken)
    world.objects.on_change(heard.append)
    made = world.trigger("t")
    assert [change.stored for change in heard] == [made]


def test_lists_are_by_namespace_and_name(world):
    """With the version to watch from."""
    for namespace, name in (("b", "x"), ("a-b", "y"), ("a", "z"), ("a", "b")):
        world.trigger(name, namespace)
    assert world.names(TRIGGER) == [("a", "b"), ("a", "z"), ("a-b", "y"), ("b", "x")]
    assert world.names(TRIGGER, "a") == [("a", "b"), ("a", "z")]
    assert world.names(TRIGGER, "none") == []
    assert world.objects.list(TRIGGER)[1] == world.objects.version
