"""The health check of the container: exit code 0 while the server accepts and delivers events.

It asks the health port of this container, in plain HTTP or by TLS, whichever the settings say. Its
certificate is for other names than loopback's, so it is not verified: nothing secret is sent.
"""

import os
import ssl
import sys
import urllib.error
import urllib.request

TIMEOUT_S = 4.0
"""Below the timeout of the check in the Dockerfile."""


def healthy(port: str) -> bool:
    """Whether ``/readyz`` at *port* answers 200."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    for scheme in ("http", "https"):
        url = f"{scheme}://127.0.0.1:{port}/readyz"
        try:
            # The schemes are those above.
            asked = urllib.request.urlopen(url, timeout=TIMEOUT_S, context=context)  # noqa: S310
            with asked as answer:
                return bool(answer.status == 200)
        except urllib.error.HTTPError:
            return False
        except OSError:
            continue
    return False


if __name__ == "__main__":
    sys.exit(0 if healthy(os.environ.get("DISTRIBUTARY_HEALTH_PORT", "8081")) else 1)
