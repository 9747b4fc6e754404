"""The renewal of tokens, as the server starts it."""

import asyncio

import pytest
from structlog.testing import capture_logs

from distributary.core.clock import SystemClock
from distributary.core.database import StorePlace, sqlite_url
from distributary.core.meter import Meter
from distributary.datadir import DataDir
from distributary.resource import Reach
from distributary.server.processes.control.renewal import Renewal
from distributary.subscriptions.consent import Agreements
from distributary.subscriptions.resource import parse
from distributary.subscriptions.service import rules
from distributary.subscriptions.store import Keys, Sealer
from distributary.subscriptions.store.store import Store
from distributary.subscriptions.store.stored import Put

ALLOWED = Reach(cleartext_credentials=True)
ACCOUNT = {"credentialType": "PLAIN", "identifier": "me", "secret": "canary"}


@pytest.mark.parametrize(("reach", "named"), [(Reach(), 1), (ALLOWED, 0)], ids=["off", "allowed"])
def test_a_start_names_whose_credentials_are_held_back(tmp_path, reach, named):
    """Subscriptions of an earlier version; the line has no secret, and no query."""
    paths = DataDir(tmp_path)
    paths.state_db.parent.mkdir(exist_ok=True)
    paths.meter("control").parent.mkdir(parents=True, exist_ok=True)
    store = Store(sqlite_url(paths.state_db))
    body = {"sink": "http://example.com/?q=canary", "protocol": "HTTP", "sinkCredential": ACCOUNT}
    store.apply([Put("orders", parse(body, rules(ALLOWED.rule())), "u1")], 5)

    async def scenario():
        def sealer():
            return Sealer(Keys(tmp_path / "credentials.key"))

        renewal = Renewal(
            paths,
            sealer,
            SystemClock(),
            Meter(paths.meter("control")),
            reach,
            agreements=Agreements(),
            place=StorePlace(sqlite_url(paths.state_db)),
        )
        renewal.start()
        for _ in range(200):
            if any(line["event"] == "credentials-held-back" for line in lines):
                break
            await asyncio.sleep(0.005 if named else 0.001)
        await renewal.stop()

    with capture_logs() as lines:
        asyncio.run(scenario())
    store.close()
    found = [line for line in lines if line["event"] == "credentials-held-back"]
    assert [(line["count"], line["subscriptions"]) for line in found] == [
        (1, ["/subscriptions/orders"])
    ] * named
    assert "canary" not in repr(lines)
