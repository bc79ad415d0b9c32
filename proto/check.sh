#!/bin/sh
# The contracts are in order: lint, format, and the committed stubs are what the .proto files generate.
set -eu
cd "$(dirname "$0")"
sh lint.sh
fresh=$(mktemp -d)
trap 'rm -rf "$fresh"' EXIT
sh gen.sh "$fresh"
for service in common env policy audit; do
  diff -r -x __pycache__ "$fresh/potluck/$service" "src/potluck/$service" || {
    echo "the stubs of potluck/$service are not current: run proto/gen.sh and commit the result" >&2
    exit 1
  }
done
echo "contracts: lint, format and generated code are in order"
