#!/bin/sh
# Installs the Melting Pot engine from the lock into .venv. Its build fetches an archive of scenario bots that substrates
# never use; an empty archive of that name in the temporary directory takes its place.
set -eu
cd "$(dirname "$0")/.."
stub=$(mktemp -d)
trap 'rm -rf "$stub"' EXIT
mkdir -p "$stub/pack/assets/saved_models" "$stub/tmp"
touch "$stub/pack/assets/saved_models/.keep"
tar czf "$stub/tmp/meltingpot-assets-2.3.0.tar.gz" -C "$stub/pack" assets
TMPDIR="$stub/tmp" uv sync --frozen --inexact --package potluck-envs --extra meltingpot
