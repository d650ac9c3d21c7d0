#!/bin/sh
# Can it be restored? Backs up the store that is in use, restores the copy beside it, serves it for
# a moment on loopback and asks it, then throws it all away. Nothing of the service is changed.
#   DISCREET_STORE=... DISCREET_SECRETS=... ./drill.sh       (every night; PostgreSQL: needs pg_dump)
set -eu
: "${DISCREET_STORE:=sqlite:///discreet.db}" "${DISCREET_SECRETS:=discreet-secrets}"
port=${DRILL_PORT:-18360}
scratch=$(mktemp -d "${DRILL_TMP:-/dev/shm}/drill.XXXXXX") # it holds a copy of the secrets: in memory
name=drill_$(basename "$scratch" | tr -cd 'a-zA-Z0-9' | tr 'A-Z' 'a-z')
server=
ended() {
    [ -z "$server" ] || kill -INT "$server" 2>/dev/null && wait "$server" 2>/dev/null || true
    case $DISCREET_STORE in
    postgresql:*) psql --quiet "$from" --command "DROP DATABASE IF EXISTS $name" ;;
    esac
    rm -rf "$scratch"
}
from=$DISCREET_STORE
trap ended EXIT

echo "1 back up"
case $from in
postgresql:*)
    pg_dump --format=custom --file="$scratch/dump" "$from"
    psql --quiet "$from" --command "CREATE DATABASE $name"
    DISCREET_STORE=$(printf %s "$from" | sed -E "s#/[^/?]*(\?|\$)#/$name\1#")
    pg_restore --no-owner --dbname="$DISCREET_STORE" "$scratch/dump"
    ;;
*)
    discreet backup "$scratch/store.db"
    DISCREET_STORE=sqlite:///$scratch/store.db
    ;;
esac
cp -R "$DISCREET_SECRETS" "$scratch/secrets"
unset DISCREET_WITNESS DISCREET_METRICS_PORT DISCREET_PERSONALIZER DISCREET_STORE_FILE
export DISCREET_STORE DISCREET_SECRETS="$scratch/secrets" DISCREET_PORT="$port"
export DISCREET_HOST=127.0.0.1 DISCREET_LOG=events

echo "2 restore"
discreet restore --yes

echo "3 serve"
discreet serve 2> "$scratch/log" &
server=$!
for _ in $(seq 100); do
    if curl --fail --silent "http://127.0.0.1:$port/readyz"; then
        printf '\nthe backup can be restored\n'
        exit 0
    fi
    kill -0 "$server" 2>/dev/null || break
    sleep 0.2
done
echo "the backup cannot be served:" >&2
cat "$scratch/log" >&2
exit 1
