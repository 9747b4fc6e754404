"""HTTP/1.1: what arrives on a connection, as requests or as responses; no I/O but a client's.

Callers: the receiver reads requests; whoever asks a server reads responses. Hides llhttp (through
``httptools``), framing, and where llhttp is too lenient for peers that may be hostile. What a
request or a response is depends on the bytes alone, never on how they were cut into reads. Who
may ask for what, deadlines and answers belong to the callers.
"""

from distributary.net.http1._client import ClientConnection, Response
from distributary.net.http1._reader import RequestReader
from distributary.net.http1._request import Request
from distributary.net.http1._response import ResponseReader
