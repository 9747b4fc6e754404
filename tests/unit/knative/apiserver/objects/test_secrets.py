"""Values of Secrets: sealed in a table of their own, and in no object."""

import base64

import pytest
import sqlalchemy as sa

from distributary.core import database
from distributary.core.errors import StoreError
from distributary.core.quotas import Quotas, QuotaTable
from distributary.knative.apiserver.machinery import Key, StatusError
from distributary.knative.apiserver.machinery.limits import OBJECT_BYTES_MAX
from distributary.knative.kinds import SECRET
from distributary.resource import SINKS
from distributary.subscriptions.store import Keys, Sealer
from kit.certificates import Authority

SINK, OTHER = "https://a.example/", "https://b.example/"


def coded(text: str) -> str:
    """As ``data`` has it."""
    return base64.b64encode(text.encode()).decode()


@pytest.fixture
def keys(tmp_path):
    """Where the key is."""
    return tmp_path / "credentials.key"


@pytest.fixture
def world(make_world, keys):
    """A server that keeps secrets."""
    return make_world(vault=Sealer(Keys(keys)))


def put(world, *, sinks=SINK, **data):
    """Create the Secret ``s`` or replace its values and sinks."""

    def change(before):
        metadata = (before or {}).get("metadata") or {"name": "s"}
        metadata = {**metadata, "annotations": {SINKS: sinks}}
        return {**(before or {}), "metadata": metadata, "data": data}

    return world.run(world.objects.put(Key(SECRET.resource, "shop", "s"), change))[0]


def kept(world, keys):
    """What is kept of the Secret ``s``; None: nothing."""
    engine = database.open_reader(world.url, "test")
    with database.reading(engine) as store:
        row = store.execute(sa.text("SELECT uid, sealed FROM kept_secret WHERE name = 's'")).first()
    engine.dispose()
    return None if row is None else Sealer(Keys(keys)).open_kept(*row)


def test_values_are_sealed_and_never_shown(world, keys, tmp_path):
    """Neither in an answer nor in a file, also after a restart; an object names its keys."""
    made = put(world, token=coded("canary"))
    assert made.content["data"] == {"token": ""}
    assert b"canary" not in made.json
    assert coded("canary").encode() not in made.json
    secret = kept(world, keys)
    assert (secret.values, secret.sinks) == ({"token": b"canary"}, (SINK,))
    assert "canary" not in repr(secret)
    world.restart()
    assert kept(world, keys) == secret
    content = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert b"canary" not in content
    assert coded("canary").encode() not in content


def test_an_empty_value_keeps_the_stored_one(world, keys):
    """So what was read can be written back, with another value beside it, or without one."""
    made = put(world, token=coded("canary"), user=coded("me"))
    again = put(world, token="", user="")
    assert again.version == made.version
    put(world, token="", user=coded("you"))
    assert kept(world, keys).values == {"token": b"canary", "user": b"you"}
    put(world, token="")
    assert kept(world, keys).values == {"token": b"canary"}
    same = put(world, token=coded("canary"))
    assert put(world, token=coded("canary")).version == same.version
    changed = put(world, token=coded("another"))
    assert changed.version > same.version
    assert kept(world, keys).values == {"token": b"another"}


def test_who_lets_a_value_go_to_another_sink_must_have_it(world, keys):
    """Fewer sinks need no values; more of them need all that are kept."""
    put(world, sinks=f"{SINK}, {OTHER}", token=coded("canary"))
    put(world, sinks=SINK, token="")
    with pytest.raises(StatusError) as caught:
        put(world, sinks=f"{SINK} {OTHER}", token="")
    assert "send the values of token again" in str(caught.value)
    put(world, sinks=f"{SINK} {OTHER}", token=coded("canary"))
    assert kept(world, keys).sinks == (SINK, OTHER)


def test_who_lets_a_value_go_to_sinks_trusted_by_others_must_have_it(world, keys):
    """Fewer certificates, or the same in other words, need no values; more need all kept ones."""
    ours, theirs = (Authority(name).pem.decode() for name in ("Ours", "Theirs"))
    put(world, token=coded("canary"))
    for certificates in (ours, "none"):
        with pytest.raises(StatusError) as caught:
            put(world, token="", caCerts=coded(certificates))
        assert "data[caCerts]" in str(caught.value)
        assert "send the values of token again" in str(caught.value)
    put(world, token=coded("canary"), caCerts=coded(ours + theirs))
    put(world, token="", caCerts="")
    put(world, token="", caCerts=coded(f"ours\n{ours}"))
    with pytest.raises(StatusError):
        put(world, token="", caCerts=coded(theirs))
    assert kept(world, keys).values == {"token": b"canary", "caCerts": f"ours\n{ours}".encode()}
    put(world, token="")
    assert kept(world, keys).values == {"token": b"canary"}


def test_values_go_with_their_object(world, keys):
    """A Secret that is made again begins without the old ones."""
    first = put(world, token=coded("canary"))
    world.delete(first.key)
    assert kept(world, keys) is None
    put(world, token="", user=coded("me"))
    assert kept(world, keys).values == {"token": b"", "user": b"me"}


def test_immutable_values_do_not_change(world):
    """Labels may."""
    made = put(world, token=coded("canary"))
    world.edit(made.key, lambda content: {**content, "immutable": True})
    error = world.refused(
        world.objects.edit(made.key, lambda content: {**content, "data": {"token": coded("x")}})
    )
    assert "immutable" in str(error)
    world.edit(made.key, lambda now: {**now, "metadata": {**now["metadata"], "labels": {"a": "b"}}})


def test_values_that_no_key_opens_are_replaced_by_all_of_them(make_world, keys):
    """As the condition asks; to keep one of them, or to change what is fixed, is refused."""
    world = make_world(vault=Sealer(Keys(keys)))
    made = put(world, token=coded("canary"), user=coded("me"))
    fixed = {"metadata": {"name": "fixed"}, "immutable": True, "data": {"token": coded("x")}}
    fixed = world.run(world.objects.create(SECRET, "shop", fixed)).key
    world.stop()
    keys.write_text(coded("n" * 32))
    world.limits = {"vault": Sealer(Keys(keys))}
    world._start()
    with pytest.raises(StoreError):
        put(world, token="", user=coded("me"))
    with pytest.raises(StoreError):
        world.edit(fixed, lambda old: {**old, "data": {"token": coded("y")}})
    again = put(world, sinks=f"{SINK} {OTHER}", token=coded("canary"), user=coded("me"))
    assert again.uid == made.uid
    assert again.version > made.version
    secret = kept(world, keys)
    assert secret.values == {"token": b"canary", "user": b"me"}
    assert secret.sinks == (SINK, OTHER)


@pytest.mark.parametrize("limit", ["object", "server", "namespace"])
def test_values_count_as_part_of_their_object(make_world, keys, limit):
    """In the size of one, of all, and of those of a namespace; after a restart too."""
    quotas = Quotas(stored_bytes=5_000 if limit == "namespace" else 0)
    table = QuotaTable(named={"shop": quotas})
    limits = {"bytes_max": 5_000} if limit == "server" else {}
    world = make_world(vault=Sealer(Keys(keys)), quotas=lambda: table, **limits)
    size = {"object": OBJECT_BYTES_MAX, "server": 3_000, "namespace": 3_000}[limit]
    put(world, token=coded("x" * (size - 1_000)))
    world.restart()
    with pytest.raises(StatusError) as caught:
        put(world, token=coded("x" * (size + 2_000)))
    refusals = {"object": "RequestEntityTooLarge"}
    assert caught.value.reason == refusals.get(limit, "Forbidden")
    put(world, token=coded("x"))
    put(world, token=coded("x" * (size - 1_000)))


def test_values_count_in_the_window_of_changes(make_world, keys):
    """A watch that is behind large values lists again."""
    world = make_world(vault=Sealer(Keys(keys)), kept_bytes_max=10_000)
    first = put(world, token=coded("x"))
    watch = world.objects.watch(SECRET, "shop", first.version)
    for text in "abc":
        put(world, token=coded(text * 3_000))
    with pytest.raises(StatusError) as caught:
        world.run(watch.changes(0))
    assert caught.value.reason == "Expired"
    watch.close()


def test_a_new_key_seals_what_an_older_one_sealed(make_world, keys):
    """At the next start; without any key that opens it the value stays as it is."""
    world = make_world(vault=Sealer(Keys(keys)))
    put(world, token=coded("canary"))
    old = keys.read_text()
    world.stop()
    keys.write_text(coded("n" * 32) + "\n" + old)
    world.limits = {"vault": Sealer(Keys(keys))}
    world._start()
    keys.write_text(coded("n" * 32) + "\n")
    assert kept(world, keys).values == {"token": b"canary"}


def test_a_server_without_a_vault_keeps_none(make_world):
    """It says so."""
    world = make_world()
    content = {"metadata": {"name": "s"}, "data": {"token": coded("canary")}}
    error = world.refused(world.objects.create(SECRET, "shop", content))
    assert error.reason == "ServiceUnavailable"
