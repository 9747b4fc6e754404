"""Answers lines of cases with the Python code of ``docs/how-to/verify-signatures.md``."""

import base64
import importlib
import sys
from datetime import UTC, datetime

from standardwebhooks.webhooks import Webhook

for line in sys.stdin:
    do, key, id_, stamp, signatures, text = line.rstrip("\n").split("\t")
    body = base64.b64decode(text)
    if do == "sign":
        when = datetime.fromtimestamp(int(stamp), UTC)
        print(Webhook(key).sign(id_, when, body.decode()))
        continue
    said = {"webhook-id": id_, "webhook-timestamp": stamp, "webhook-signature": signatures}
    headers = {name: value for name, value in said.items() if value}
    is_ours = importlib.import_module(f"verify_{do}").is_ours  # written beside this file
    print("yes" if is_ours(headers, body, key) else "no")
