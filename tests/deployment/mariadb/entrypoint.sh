#!/bin/bash
# As the official image does on an empty data folder: a temporary server without a network sets up root, stops, and only then
# the real one starts. Whoever takes the temporary one for ready meets a server that goes away.
set -euo pipefail

data=/var/lib/mysql
socket=/run/mysqld/mysqld.sock

if [[ ! -d $data/mysql ]]; then
  password=$(<"$MARIADB_ROOT_PASSWORD_FILE")
  mariadb-install-db --no-defaults --datadir="$data" --auth-root-authentication-method=normal --skip-test-db >/dev/null
  "$@" --skip-networking --socket="$socket" &
  for _ in $(seq 300); do
    mariadb-admin --socket="$socket" --user=root ping >/dev/null 2>&1 && break
    sleep 0.1
  done
  mariadb --socket="$socket" --user=root <<SQL
SET PASSWORD FOR root@localhost = PASSWORD('$password');
CREATE USER root@'%' IDENTIFIED BY '$password';
GRANT ALL ON *.* TO root@'%' WITH GRANT OPTION;
SQL
  sleep 4  # as long as the official image takes to load time zones
  MYSQL_PWD=$password mariadb-admin --socket="$socket" --user=root shutdown
  wait
fi
exec "$@" --socket="$socket"
