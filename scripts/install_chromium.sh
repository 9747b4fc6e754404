#!/usr/bin/env bash
# Install the browser that tests/e2e/test_browser.py drives, on Debian and its kin; as root. Called
# by .ci/run, after install_brokers.sh: there is one apt-get at a time.
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive

if command -v chromium >/dev/null; then
    exit 0
fi
echo "==> installing chromium with apt-get"
apt-get update -qq
apt-get install -qq --no-install-recommends chromium >/dev/null
