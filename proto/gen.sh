#!/bin/sh
# Regenerates the committed stubs from protos/ into src (or into $1). An old protoc gives the widest runtime range,
# a new one the type stubs.
set -eu
cd "$(dirname "$0")"
out=${1:-src}
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
protos=$(cd protos && find potluck -name '*.proto' | LC_ALL=C sort)
include=$(uv run --quiet --no-project --isolated --with 'googleapis-common-protos>=1.65' \
  python -c 'import google.rpc.status_pb2 as m, pathlib; print(pathlib.Path(m.__file__).parents[2])')
# shellcheck disable=SC2086
uv run --quiet --no-project --isolated --with 'grpcio-tools==1.71.2' --with 'setuptools<81' \
  python -m grpc_tools.protoc -I protos -I "$include" --python_out="$new" --grpc_python_out="$new" $protos
# shellcheck disable=SC2086
uv run --quiet --no-project --isolated --with 'grpcio-tools==1.85.1' --with 'mypy-protobuf==5.1.0' \
  python -m grpc_tools.protoc -I protos -I "$include" --mypy_out=quiet:"$new" --mypy_grpc_out=quiet:"$new" $protos
find "$new/potluck" -name '*_grpc.py*' | while read -r f; do grep -q Stub "$f" || rm "$f"; done
find "$new/potluck" -name '*_pb2.py' -exec dirname {} \; | sort -u | while read -r d; do : > "$d/py.typed"; done
# Files change in place, so that a program that imports them meanwhile still finds them all.
mkdir -p "$out/potluck"
cp -R "$new/potluck/." "$out/potluck/"
(cd "$out" && find potluck/*/v1 -type f -not -path '*/__pycache__/*') | while read -r f; do
  [ -e "$new/$f" ] || rm "$out/$f"
done
