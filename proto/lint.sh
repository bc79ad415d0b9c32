#!/bin/sh
# Lints and checks the format of our .proto files. They import google/rpc/status.proto, which buf would fetch from its
# registry; a workspace aside takes it from the installed googleapis-common-protos instead, and only ours is linted.
set -eu
cd "$(dirname "$0")"
buf=${BUF:-../.venv/bin/buf}
python=${PYTHON:-../.venv/bin/python}
aside=$(mktemp -d)
trap 'rm -rf "$aside"' EXIT
google=$("$python" -c 'import google.rpc.status_pb2 as m, pathlib; print(pathlib.Path(m.__file__).parent)')
mkdir -p "$aside/google/google/rpc"
cp "$google/status.proto" "$aside/google/google/rpc/"
cp -R protos "$aside/protos"
sed 's/^modules:$/modules:\n  - path: google/' buf.yaml > "$aside/buf.yaml"
"$buf" lint "$aside/protos"
"$buf" format "$aside/protos" -d --exit-code
