#!/usr/bin/env bash
# Install the brokers that the tests start, on Debian and its kin; as root. Called by .ci/run.
#
# The tests start servers of their own on free ports: what the packages start by themselves is
# stopped again, so that it takes neither ports nor time.
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive

missing=()
for package in mosquitto nats-server rabbitmq-server; do
    PATH="$PATH:/usr/sbin:/usr/local/sbin" command -v "$package" >/dev/null || missing+=("$package")
done
if [ "${#missing[@]}" -eq 0 ]; then
    exit 0
fi

echo "==> installing ${missing[*]} with apt-get"
# Debian asks this program whether a package may start its service; 101 is "no". One that is there
# has its reasons and stays.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod +x "$policy"
    trap 'rm -f "$policy"' EXIT
fi
apt-get update -qq
apt-get install -qq --no-install-recommends "${missing[@]}" >/dev/null

for service in "${missing[@]}"; do
    service "$service" stop >/dev/null 2>&1 || true  # it does not run: that is what we want
done
