"""A client that changes Knative objects at random, and tracks their expected state.

Each client has its own namespace. An object must be as in the response to its last request; a
request without a response may have been applied or not, but only as a whole.

Callers: ``resource_kills``. Hides: the contents of objects, and the meaning of lost responses.
"""

import contextlib
import http.client
import itertools
import random
import time
from collections.abc import Iterator, Mapping
from typing import Final

from distributary.knative.apiserver.machinery import Key, Kind, Object
from distributary.knative.kinds import (
    BROKER,
    CHANNEL,
    KINDS,
    SERVICE,
    SERVICE_ADDRESS,
    SUBSCRIPTION,
    TRIGGER,
)
from kit.answering_sinks import AnsweringSink, AnsweringSinks
from kit.knative_client import KnativeClient, condition, event_attributes
from kit.running_server import Answer, RunningServer, ServerError, wait_until

__all__ = ["ChangingClient"]

NAMES: Final = {
    BROKER: ("default", "b1"),
    CHANNEL: ("c0", "c1"),
    SERVICE: ("s0", "s1", "s2"),
    TRIGGER: tuple(f"t{number}" for number in range(6)),
    SUBSCRIPTION: tuple(f"u{number}" for number in range(4)),
}
"""Few enough that objects are recreated, and that references break and mend."""

STAMP: Final = "stamp"
"""An annotation; each change writes a new one."""

BACK_S_MAX: Final = 60.0
"""Longest wait for an answer after a kill."""

LATE_S: Final = 0.5
"""A request whose answer a kill cut off may still be carried out for so long."""

_KINDS: Final = {kind.resource: kind for kind in KINDS}
_ROUTED: Final = (TRIGGER.resource, SUBSCRIPTION.resource)


class ChangingClient(KnativeClient):
    """A client with the expected state of the objects in its namespace.

    Args:
        server: The server.
        namespace: Changed by this client only.
        sinks: Sinks of Triggers and Subscriptions, a separate one for each.
        seed: Reproduces every choice.

    Attributes:
        stamps: Stamp of each object; None: it does not exist.
        changes: Requests made.
        broken: Requests without a response.
        faults: Wrong responses, and wrong effects of requests without one.
    """

    def __init__(
        self, server: RunningServer, namespace: str, sinks: AnsweringSinks, seed: int
    ) -> None:
        super().__init__(server, namespace)
        self.stamps: dict[Key, str | None] = {}
        self.sinks: dict[Key, AnsweringSink] = {}
        self.changes = self.broken = 0
        self.faults: list[str] = []
        self._port = sinks.port
        self._chance = random.Random(f"{seed} {namespace}")  # noqa: S311 - a scenario is no secret
        self._numbers = itertools.count(1)
        for kind, names in NAMES.items():
            for name in names:
                key = Key(kind.resource, namespace, name)
                self.stamps[key] = None
                if key.resource in _ROUTED:
                    self.sinks[key] = sinks.sink(f"/{namespace}/{name}")

    def learn(self) -> None:
        """Look at what stands at first: the default Broker."""
        for key in self.stamps:
            found = self._look(key)
            self.stamps[key] = None if found is None else _stamp(found)

    def change(self) -> None:
        """Make one change; after it, what the object must be like is known."""
        key = self._chance.choice(list(self.stamps))
        before = self.stamps[key]
        stamp: str | None = f"{self.namespace}.{next(self._numbers)}"
        kind, name = _KINDS[key.resource], key.name
        try:
            if before is None:
                answer = self.propose_whole(kind, self._whole(key, stamp))
            elif self._chance.random() < 0.6:
                answer = self.merge(kind, name, self._whole(key, stamp, again=True))
            else:
                stamp = None
                answer = self.send("DELETE", self.path(kind, name))
        except (OSError, http.client.HTTPException):
            self.stamps[key] = self._either(key, before, stamp)
        else:
            self._judge(key, answer, before, stamp)
        self.changes += 1

    def _judge(self, key: Key, answer: Answer, before: str | None, after: str | None) -> None:
        if answer.status >= 500:  # whoever passes requests on does not know what became of it
            self.stamps[key] = self._either(key, before, after)
            return
        if not 200 <= answer.status < 300:
            self.faults.append(f"{key}: {answer.status} {answer.body!r}")
        self.stamps[key] = after

    def _either(self, key: Key, before: str | None, after: str | None) -> str | None:
        """Which of the two it came to; the answer was lost."""
        self.broken += 1
        found = self._stamp_again(key)
        if found == before:
            time.sleep(LATE_S)
            found = self._stamp_again(key)
        if found not in {before, after}:
            self.faults.append(f"{key} is {found}; it was {before}, and was to be {after}")
        return found

    def _stamp_again(self, key: Key) -> str | None:
        found: list[str | None] = []

        def answered() -> bool:
            with contextlib.suppress(OSError, http.client.HTTPException, ServerError):
                obj = self._look(key)
                found.append(None if obj is None else _stamp(obj))
            return bool(found)

        wait_until(answered, BACK_S_MAX, f"the API answers\n{self.server.log_tail()}")
        return found[0]

    def _look(self, key: Key) -> Object | None:
        answer = self.send("GET", self.path(_KINDS[key.resource], key.name))
        if answer.status not in {200, 404}:
            raise ServerError(f"{key}: {answer.status} {answer.body!r}")
        obj: Object | None = answer.json() if answer.status == 200 else None
        return obj

    # -- what objects are like --------------------------------------------------------------

    def _whole(self, key: Key, stamp: str | None, *, again: bool = False) -> Object:
        """Members of an object, or of the patch that changes it."""
        annotations = {STAMP: stamp}
        if key.resource == SERVICE.resource:
            annotations[SERVICE_ADDRESS] = f"127.0.0.1:{self._port}"
        spec = self._spec(key, str(stamp), again=again)
        return {"metadata": {"name": key.name, "annotations": annotations}, "spec": spec}

    def _spec(self, key: Key, stamp: str, *, again: bool) -> Object:
        if key.resource == SERVICE.resource:
            return {"ports": [{"port": 80}]}
        spec: Object = {"delivery": {"retry": self._chance.randrange(1, 9)}}
        if key.resource in {BROKER.resource, CHANNEL.resource}:
            if self._chance.random() < 0.3:
                spec["delivery"]["deadLetterSink"] = self._ref(SERVICE)
            return spec
        # A patch names both members of a destination: what it leaves out stays.
        absent = {"ref": None} if again else {}
        place = self.sinks[key].url
        if self._chance.random() < 0.5:
            path = place.removeprefix(f"http://127.0.0.1:{self._port}")
            spec["subscriber"] = {**self._ref(SERVICE), "uri": path}
        else:
            spec["subscriber"] = {**absent, "uri": place}
        if key.resource == TRIGGER.resource:
            spec["filter"] = {"attributes": {"type": stamp}}
            named = {} if again else {"broker": self._any(BROKER)}
        else:
            named = {} if again else {"channel": self._ref(CHANNEL, self._any(CHANNEL))["ref"]}
            if self._chance.random() < 0.3:
                spec["reply"] = self._ref(self._chance.choice((BROKER, CHANNEL)))
        return spec | named

    def _any(self, kind: Kind) -> str:
        return self._chance.choice(NAMES[kind])

    def _ref(self, kind: Kind, name: str | None = None) -> Object:
        reference = {"apiVersion": kind.api_version, "kind": kind.kind}
        return {"ref": {**reference, "name": name or self._any(kind)}}

    # -- what stands ------------------------------------------------------------------------

    def objects(self) -> dict[Key, Object]:
        """Every object of the namespace that this client changes."""
        found: dict[Key, Object] = {}
        for kind in NAMES:
            for item in self.send("GET", self.path(kind)).json()["items"]:
                found[Key(kind.resource, self.namespace, item["metadata"]["name"])] = item
        return found

    def differences(self, objects: Mapping[Key, Object]) -> Iterator[str]:
        """Objects that are not as they were answered."""
        for key, stamp in self.stamps.items():
            found = _stamp(objects[key]) if key in objects else None
            if found != stamp:
                yield f"{key} is {found}, and was answered as {stamp}"

    def publish_to_all(self, objects: Mapping[Key, Object]) -> dict[Key, set[str]]:
        """Send an event to each that is ready; which ones each has to get, by their ids."""
        ready = [key for key in self.sinks if key in objects and _is_ready(objects[key])]
        expected: dict[Key, set[str]] = {}
        for key in ready:
            spec, stamp = objects[key]["spec"], str(self.stamps[key])
            if key.resource == TRIGGER.resource:
                path = f"/brokers/{self.namespace}/{spec['broker']}"
            else:
                path = f"/channels/{self.namespace}/{spec['channel']['name']}"
            expected[key] = {self.publish(path, id=stamp, type=stamp)}
        return expected

    def unknown_addresses(self, objects: Mapping[Key, Object]) -> Iterator[str]:
        """Addresses of what is gone that take events all the same."""
        for kind in (BROKER, CHANNEL):
            for name in NAMES[kind]:
                if Key(kind.resource, self.namespace, name) not in objects:
                    path = f"/{kind.plural}/{self.namespace}/{name}"
                    status = self.post(path, event_attributes()).status
                    if status != 404:
                        yield f"{path} is gone, and answers {status}"


def _stamp(obj: Object) -> str:
    stamp: str = (obj["metadata"].get("annotations") or {}).get(STAMP, "first")
    return stamp


def _is_ready(obj: Object) -> bool:
    return bool(condition(obj, "Ready").get("status") == "True")
