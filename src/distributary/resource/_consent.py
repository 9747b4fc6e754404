"""The operator's settings about consent, and the key of a target (http-webhook 1.0, section 4)."""

import hashlib
from dataclasses import dataclass
from typing import Final, Literal

ConsentMode = Literal["never", "public", "always"]
"""Which HTTP targets are asked before the first delivery: none, those on public addresses, or all
but this server itself."""


@dataclass(frozen=True, slots=True)
class ConsentRule:
    """Whom this server asks for consent, and as whom.

    Attributes:
        mode: Which targets are asked.
        origin: DNS name of this system, which targets consent to.
        callback_base: URL of this server, below which a target may consent later; None: it is not
            known how others reach this server, so no callback is offered.
        partitions: Partitions, which share the rate that a target allows.
    """

    mode: ConsentMode = "never"
    origin: str = ""
    callback_base: str | None = None
    partitions: int = 1

    def share_per_s(self, rate_per_min: int) -> float:
        """The rate of one partition, requests a second, where a target allows *rate_per_min*.

        All together start at most *rate_per_min* in any minute if that is at least one for each
        partition; else each starts one in so long that the mean is kept.
        """
        whole = rate_per_min // self.partitions
        return (whole or rate_per_min / self.partitions) / 60.0


NOBODY_IS_ASKED: Final = ConsentRule()


def target_key(namespace: str, uri: str, dial: str | None) -> str:
    """The key of a target: tenants do not share consent, nor do places dialled for one URI.

    A digest, since queries of URIs hold secrets.
    """
    parts = (namespace, uri, dial or "")
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()
