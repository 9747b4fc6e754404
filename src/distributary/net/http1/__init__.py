"""HTTP/1.1 parsers of requests and responses, and a client connection.

Callers: the receiver reads requests; clients read responses. Hides llhttp (through ``httptools``),
framing, and stricter checks where llhttp is too lenient for hostile peers. Results depend on the
bytes alone, never on how reads split them. Authorization, deadlines and responses belong to the
callers.
"""

from distributary.net.http1._client import ClientConnection, Response
from distributary.net.http1._reader import RequestReader
from distributary.net.http1._request import Request
from distributary.net.http1._response import ResponseReader
