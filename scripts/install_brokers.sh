#!/usr/bin/env bash
# Install the brokers and PostgreSQL that the tests start, on Debian and its kin; as root. Called by
# .ci/run.
#
# The tests start servers of their own on free ports: what the packages start by themselves is
# stopped again, so that it takes neither ports nor time.
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive

missing=()
for package in mosquitto nats-server rabbitmq-server; do
    PATH="$PATH:/usr/sbin:/usr/local/sbin" command -v "$package" >/dev/null || missing+=("$package")
done
if ! ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1; then
    missing+=(postgresql)
fi
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
# Debian would make and start a cluster; the tests make their own.
if [ ! -e /etc/postgresql-common/createcluster.conf ]; then
    mkdir -p /etc/postgresql-common
    echo 'create_main_cluster = false' >/etc/postgresql-common/createcluster.conf
fi
apt-get update -qq
apt-get install -qq --no-install-recommends "${missing[@]}" >/dev/null

for service in "${missing[@]}"; do
    service "$service" stop >/dev/null 2>&1 || true  # it does not run: that is what we want
done
