"""Consents of HTTP targets, as the control process stores them: what deliveries may go where.

Called by ``DirectoryTargets``. Without a row a target waits, unless its URI itself shows that it
need not be asked. Where nobody is asked, nothing is read.
"""

from collections.abc import Sequence
from urllib.parse import urlsplit

import sqlalchemy as sa

from distributary.core.clock import Clock
from distributary.core.deliver.consent import Consent
from distributary.net import is_private
from distributary.resource import NOBODY_IS_ASKED, ConsentRule, literal, target_key
from distributary.subscriptions.store.consent_rows import ConsentReader, ConsentRow

_WAITS = Consent(given=False)


class Consents:
    """The consents in the store at *url*; ``read`` may run in another thread than the rest.

    Args:
        url: Of the store.
        clock: For the ends of consents.
    """

    def __init__(self, url: sa.URL, clock: Clock) -> None:
        self._reader = ConsentReader(url)
        self._clock = clock
        self._rule = NOBODY_IS_ASKED
        self._seq = 0
        self._rows: dict[str, ConsentRow] = {}
        self._routes: dict[str, set[str]] = {}  # by target
        self._targets: dict[str, set[str]] = {}  # by route

    def follow(self, rule: ConsentRule) -> None:
        """Change the rule; all rows are read again."""
        self._rule = rule
        self._seq = 0
        self._rows.clear()
        self._routes.clear()
        self._targets.clear()

    def read(self, *, anew: bool = False) -> tuple[int, list[ConsentRow]] | None:
        """Read changed rows, or all *anew*; None: there are none. Blocks.

        Raises:
            StoreError: The store cannot be read now.
        """
        if self._rule.mode == "never":
            return None
        news = self._reader.changed(0 if anew else self._seq)
        return news if news[1] or anew else None

    def take(self, news: tuple[int, Sequence[ConsentRow]], *, anew: bool = False) -> set[str]:
        """Apply what ``read`` returned; returns the routes whose targets it concerns."""
        self._seq, rows = news
        concerned: set[str] = set()
        if anew:  # a failover may have lost a consent, and its row
            for target in self._rows.keys() - {row.target for row in rows}:
                del self._rows[target]
                concerned |= self._routes.get(target, set())
        for row in rows:
            agreed = row if row.state in ("given", "private") else None  # or as without a row
            if self._rows.get(row.target) == agreed:
                continue
            if agreed is None:
                del self._rows[row.target]
            else:
                self._rows[row.target] = agreed
            concerned |= self._routes.get(row.target, set())
        return concerned

    def forget(self, route: str) -> None:
        """Forget the targets of *route*, until they are asked for again."""
        for target in self._targets.pop(route, ()):
            routes = self._routes[target]
            routes.discard(route)
            if not routes:
                del self._routes[target]

    def of(self, route: str, namespace: str, uri: str, dial: str | None) -> Consent | None:
        """How far the target *uri* of *route* agrees to deliveries; None: nobody is asked."""
        rule = self._rule
        if rule.mode == "never":
            return None
        if rule.mode == "public" and _shown_private(uri, dial):
            return Consent(given=True, private_alone=True)
        key = target_key(namespace, uri, dial)
        self._routes.setdefault(key, set()).add(route)
        self._targets.setdefault(route, set()).add(key)
        row = self._rows.get(key)
        if row is None:
            return _WAITS
        if row.state == "private" and rule.mode == "public":
            return Consent(given=True, private_alone=True)
        if not row.holds(rule.origin, self._clock.wall_ms()):
            return _WAITS
        rate = row.rate_per_min
        share = None if rate is None else rule.share_per_s(rate)
        return Consent(given=True, origin=rule.origin, rate_per_s=share)

    def close(self) -> None:
        """Close the store."""
        self._reader.close()


def _shown_private(uri: str, dial: str | None) -> bool:
    """Whether the URI names a private address; a name must be resolved first."""
    host = urlsplit(f"//{dial}" if dial else uri).hostname or ""
    address = literal(host)
    return address is not None and is_private(str(address))
