#!/bin/sh
# Regenerates the committed stubs from protos/. An old protoc gives the widest runtime range, a new one the type stubs.
set -eu
cd "$(dirname "$0")"
for d in common env policy audit; do rm -rf "src/potluck/$d"; done
protos=$(cd protos && find potluck -name '*.proto' | LC_ALL=C sort)
include=$(uv run --quiet --no-project --isolated --with 'googleapis-common-protos>=1.65' \
  python -c 'import google.rpc.status_pb2 as m, pathlib; print(pathlib.Path(m.__file__).parents[2])')
# shellcheck disable=SC2086
uv run --quiet --no-project --isolated --with 'grpcio-tools==1.71.2' --with 'setuptools<81' \
  python -m grpc_tools.protoc -I protos -I "$include" --python_out=src --grpc_python_out=src $protos
# shellcheck disable=SC2086
uv run --quiet --no-project --isolated --with 'grpcio-tools==1.85.1' --with 'mypy-protobuf==5.1.0' \
  python -m grpc_tools.protoc -I protos -I "$include" --mypy_out=quiet:src --mypy_grpc_out=quiet:src $protos
find src/potluck -name '*_grpc.py*' | while read -r f; do grep -q Stub "$f" || rm "$f"; done
find src/potluck -name '*_pb2.py' -exec dirname {} \; | sort -u | while read -r d; do : > "$d/py.typed"; done
