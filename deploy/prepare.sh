#!/bin/sh
# Secrets for compose.yaml, made once and never overwritten: ./prepare.sh decisions.example.org
set -eu
cd "$(dirname "$0")"
[ $# -eq 1 ] || { echo "usage: $0 DOMAIN   (localhost, to try it)" >&2; exit 2; }
random() { head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n'; }
umask 077
mkdir -p secrets # nobody else enters; what is in it is read in containers, by other users
[ -e secrets/database ] || random > secrets/database
[ -e secrets/store ] ||
    printf 'postgresql://discreet:%s@database/discreet' "$(cat secrets/database)" > secrets/store
[ -e secrets/admin_key ] || random > secrets/admin_key
chmod 444 secrets/*
printf 'DOMAIN=%s\n' "$1" > .env
echo "ready: docker compose up --detach --wait. The admin key is in $(pwd)/secrets/admin_key"
