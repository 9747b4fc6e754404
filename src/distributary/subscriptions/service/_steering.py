"""Pauses, disables, retries and replays subscriptions, as people ask. Blocking."""

import uuid

from distributary.core.clock import Clock
from distributary.core.demand import Demand, DemandDetails
from distributary.core.errors import Fault, ResourceError
from distributary.core.tenant import DEFAULT_NAMESPACE
from distributary.subscriptions.service._runs import Runs, run_key
from distributary.subscriptions.store.steering import Steering
from distributary.subscriptions.store.store import Store


class Steerings:
    """Changes what is set about the deliveries of a subscription. Safe from any thread.

    Methods raise ``NotFoundError`` where the subscription does not exist in the namespace, and
    ``StoreError`` where nothing can be changed now.

    Args:
        store: Resources, steering and demands.
        clock: For stamps.
        runs: Starts runs.
    """

    def __init__(self, store: Store, clock: Clock, runs: Runs) -> None:
        self._store = store
        self._clock = clock
        self._runs = runs

    def pause(self, id_: str, by: str, namespace: str = DEFAULT_NAMESPACE) -> Steering:
        """Start no delivery until it is resumed; what matches meanwhile waits. Idempotent."""
        uid = self._store.find(id_, namespace).uid
        return self._store.pause(uid, by, self._clock.wall_ms()).now

    def resume(self, id_: str, by: str, namespace: str = DEFAULT_NAMESPACE) -> Demand:
        """End a pause, and send to a parked sink again. Idempotent.

        Raises:
            ConflictError: It is disabled.
        """
        uid = self._store.find(id_, namespace).uid
        run = run_key(uuid.uuid4().hex, namespace)
        return self._store.send_again(uid, by, run, self._clock.wall_ms())

    def disable(
        self, id_: str, reason: str, by: str, namespace: str = DEFAULT_NAMESPACE
    ) -> Steering:
        """Start no delivery until it is enabled; what matches meanwhile waits. Idempotent."""
        uid = self._store.find(id_, namespace).uid
        return self._store.disable(uid, reason, by, self._clock.wall_ms()).now

    def enable(self, id_: str, by: str, namespace: str = DEFAULT_NAMESPACE) -> Steering:
        """End that it is disabled; a pause goes on. Idempotent."""
        uid = self._store.find(id_, namespace).uid
        return self._store.enable(uid, by, self._clock.wall_ms()).now

    def retry(
        self, id_: str, run: str | None, details: DemandDetails, namespace: str = DEFAULT_NAMESPACE
    ) -> Demand:
        """Ask that its waiting retries are made now.

        Raises:
            ConflictError, RequestError: As ``Runs.ask``.
        """
        uid = self._store.find(id_, namespace).uid
        return self._runs.ask("retry", uid, run, namespace, details)

    def replay(
        self, id_: str, run: str | None, details: DemandDetails, namespace: str = DEFAULT_NAMESPACE
    ) -> Demand:
        """Ask that events of the log are sent to it again, by its newest filters.

        Raises:
            ResourceError: The end is not after the beginning, or lies in the future.
            ConflictError, RequestError: As ``Runs.ask``.
        """
        uid = self._store.find(id_, namespace).uid
        check_span(details, self._clock.wall_ms())
        return self._runs.ask("replay", uid, run, namespace, details)


def check_span(details: DemandDetails, now_ms: int) -> None:
    """Refuse a replay of no time, or of time to come.

    Raises:
        ResourceError: With every fault.
    """
    since_ms, until_ms = details.since_ms, details.until_ms
    faults: list[Fault] = []
    if since_ms is not None and since_ms > now_ms:
        faults.append(Fault("$.from", "value", "lies in the future: nothing is there to replay"))
    if until_ms is not None and until_ms > now_ms:
        faults.append(Fault("$.to", "value", "lies in the future: leave it out for now"))
    if since_ms is not None and until_ms is not None and until_ms <= since_ms:
        faults.append(Fault("$.to", "value", "must be after from"))
    if faults:
        raise ResourceError(faults)
