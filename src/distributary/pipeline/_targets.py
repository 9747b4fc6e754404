"""Targets and route history, from the resource store (read-only, another process writes it)."""

from pathlib import Path

from distributary.control import Directory, Listed, RouteChanges, delivery_policy, store_url
from distributary.deliver import Destination
from distributary.flow import RouteRecord
from distributary.pipeline._ports import RouteTarget
from distributary.resource import DeliverySpec, HttpSettings

ALONE_COUNT_MAX = 64
"""With more resources than this it is taken that they have several sinks, unseen."""


class DirectoryTargets:
    """``Targets`` and ``RouteHistory`` over the store at *path*; for one thread at a time.

    Destinations are made once for each revision and kept: transports look up what they derive
    from them by identity of their hash.
    """

    def __init__(self, path: Path) -> None:
        self._directory = Directory(store_url(path))
        self._history = RouteChanges(store_url(path))
        self._targets: dict[str, RouteTarget] = {}
        self._changed: set[str] = set()
        self._alone: dict[str, bool] = {}

    def refresh(self) -> bool:
        """Look for changes; True where there were some."""
        if not self._directory.refresh():
            return False
        self._alone.clear()
        for route, target in list(self._targets.items()):
            listed = self._directory.get(route)
            if listed is None or listed.revision != target.revision:
                self._changed.add(target.sink.uri)
                if target.dead_letter is not None:
                    self._changed.add(target.dead_letter.uri)
                del self._targets[route]
        return True

    def all_go_to(self, uri: str) -> bool:
        """True where every resource has the sink *uri*: then nobody else is held up by it."""
        alone = self._alone.get(uri)
        if alone is None:
            alone = len(self._directory) <= ALONE_COUNT_MAX and all(
                target is None or target.sink.uri == uri
                for target in map(self.get, self._directory.uids())
            )
            self._alone[uri] = alone
        return alone

    def changed_uris(self) -> list[str]:
        """Sinks whose waiting tasks may belong elsewhere since the last call."""
        changed, self._changed = self._changed, set()
        return sorted(changed)

    def get(self, route: str) -> RouteTarget | None:
        """The target of the route with this uid; None where its resource is deleted."""
        target = self._targets.get(route)
        if target is None:
            listed = self._directory.get(route)
            if listed is None:
                # Its record may be newer than what was last read; the store is written first.
                self.refresh()
                listed = self._directory.get(route)
            if listed is None:
                return None
            target = self._targets[route] = _target(listed)
        return target

    def last_seq(self) -> int:
        """The last change that stands in every partition."""
        return self._history.last_seq()

    def between(self, after_seq: int, before_seq: int) -> list[RouteRecord]:
        """Changes with ``after_seq < seq < before_seq``, in order."""
        return self._history.between(after_seq, before_seq)

    def close(self) -> None:
        """Close the store."""
        self._directory.close()
        self._history.close()


def _target(listed: Listed) -> RouteTarget:
    spec = listed.spec
    dead = spec.delivery.dead_letter
    return RouteTarget(
        listed.revision,
        _destination(spec.sink, spec.protocol, spec.http, spec.delivery),
        None if dead is None else _destination(dead.sink, dead.protocol, dead.http, dead.delivery),
    )


def _destination(
    uri: str, protocol: str, http: HttpSettings, delivery: DeliverySpec
) -> Destination:
    return Destination(
        uri=uri,
        protocol=protocol,
        method=http.method.encode(),
        headers=tuple((name.encode(), value.encode("latin-1")) for name, value in http.headers),
        format=http.format,
        policy=delivery_policy(delivery),
    )
