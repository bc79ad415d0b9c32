#!/bin/sh
# Brings a bare machine with Python 3.11+ to a working checkout: uv, the locked workspace, torch.
#
# With an NVIDIA GPU the lock is installed as it stands. Without one the CUDA stack (2.8 GB) is left
# out and the same torch version comes as a CPU wheel: from the folder in UV_FIND_LINKS or
# PIP_FIND_LINKS if it has one, else from PyTorch's own index, else (slow) the lock's CUDA build.
#
# Melting Pot's engine needs glibc 2.35; where it is older, the rest is installed and this is said.
set -eu
cd "$(dirname "$0")/.."
TORCH=$(awk '/^name = "torch"$/ {getline; gsub(/[^0-9.]/, "", $3); print $3; exit}' uv.lock)

if ! command -v uv >/dev/null 2>&1; then
    if [ ! -x .tools/bin/uv ]; then
        echo "setup: installing uv into .tools"
        python3 -m venv .tools
        .tools/bin/pip install --quiet "uv>=0.9,<1"
    fi
    PATH="$PWD/.tools/bin:$PATH"
fi
export UV_PYTHON_DOWNLOADS="${UV_PYTHON_DOWNLOADS:-automatic}"

stamp=.venv/.potluck-setup
fingerprint=$(cat uv.lock pyproject.toml proto/pyproject.toml packages/*/pyproject.toml scripts/setup.sh scripts/meltingpot.sh | sha256sum | cut -d' ' -f1)
if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$fingerprint" ]; then exit 0; fi

no_meltingpot=$(sh scripts/meltingpot.sh check)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
sh scripts/meltingpot.sh stub "$scratch"
sync() {
    # shellcheck disable=SC2086
    TMPDIR="$scratch" uv sync --frozen --all-packages --inexact $no_meltingpot "$@"
}

if command -v nvidia-smi >/dev/null 2>&1 && nvidia-smi >/dev/null 2>&1; then
    sync
else
    skip=$(sed -nE 's/^name = "((torch|triton|nvidia|cuda)[^"]*)"$/--no-install-package \1/p' uv.lock | tr '\n' ' ')
    # shellcheck disable=SC2086
    sync $skip
    if ! .venv/bin/python -c "import torch, sys; sys.exit(torch.__version__.split('+')[0] != '$TORCH')" 2>/dev/null; then
        links=${UV_FIND_LINKS:-${PIP_FIND_LINKS:-}}
        echo "setup: installing the CPU build of torch $TORCH"
        { [ -n "$links" ] && UV_FIND_LINKS="$links" uv pip install --quiet --no-config --python .venv --no-index --no-deps "torch==$TORCH" \
            && uv pip install --quiet --no-config --python .venv filelock "typing-extensions" "sympy" networkx jinja2 fsspec mpmath; } \
        || uv pip install --quiet --no-config --python .venv --torch-backend cpu "torch==$TORCH" \
        || sync
    fi
fi
echo "$fingerprint" > "$stamp"
echo "setup: done. For the commands by hand: export PATH=\"$PWD/.venv/bin:$PWD/.tools/bin:\$PATH\" UV_NO_SYNC=1"
