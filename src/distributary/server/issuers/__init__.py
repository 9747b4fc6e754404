"""Issuers of bearer tokens: their tables in the configuration file, and their public keys.

Called by ``server.settings`` (faults of the tables) and by the control process, which alone fetches
keys; receivers get them in the access snapshot and dial nobody. Hides discovery (OpenID Connect),
JWK sets, and what happens while an issuer is down.
"""

from distributary.server.issuers._documents import HttpDocuments
from distributary.server.issuers._keeper import KeyKeeper
from distributary.server.issuers._tables import IssuerSettings, read_issuers
