"""Port blocklist for public hosts: ports of other services, to which no event is sent.

Called by the validation of resources and by ``net``, which checks every connection against it.
"""

from typing import Final

BROWSERS_PORTS: Final = frozenset(
    (
        *(1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95),
        *(101, 102, 103, 104, 109, 110, 111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179),
        *(389, 427, 465, 512, 513, 514, 515, 526, 530, 531, 532, 540, 548, 554, 556, 563, 587, 601),
        *(636, 989, 990, 993, 995, 1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061),
        *(6000, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080),
    )
)
"""The ports that browsers refuse ("bad port" of the Fetch standard): mail, remote shells, names,
files. Servers there could read a request's text as commands."""

STORES_PORTS: Final = frozenset((445, 1433, 2375, 3306, 3389, 5432, 6379, 9042, 11211, 27017))
"""Databases, caches and remote control that accept commands without a login, or whose logins are
worth guessing: SMB, SQL Server, Docker, MySQL, RDP, PostgreSQL, Redis, Cassandra, memcached,
MongoDB."""

PORTS_DENIED: Final = BROWSERS_PORTS | STORES_PORTS
"""Never dialled on public addresses, unless the operator allows the address."""
