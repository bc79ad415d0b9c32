#!/bin/sh
# What Melting Pot's engine needs of a machine, for setup.sh.
#
#   meltingpot.sh check       prints the uv flags that leave the engine out where it cannot run (and says so), or nothing
#   meltingpot.sh stub DIR    puts an empty archive of scenario bots into DIR, which is then the build's TMPDIR: the
#                             build of dm-meltingpot takes it from there instead of fetching bots that no substrate uses
set -eu
ASSETS=meltingpot-assets-2.3.0
GLIBC_MINOR=35

case "${1:-}" in
check)
    glibc=$(getconf GNU_LIBC_VERSION 2>/dev/null | sed -n 's/^glibc //p')
    case "$glibc" in
    2.*) minor=${glibc#2.} ;;
    *) exit 0 ;;
    esac
    if [ "${minor%%[!0-9]*}" -lt "$GLIBC_MINOR" ]; then
        echo "setup: this machine has glibc $glibc, but Melting Pot's engine (dmlab2d) needs 2.$GLIBC_MINOR or newer:" \
            "Debian 12, Ubuntu 22.04. Everything else is installed; the games meltingpot/* will not start here." >&2
        echo "--no-install-package dmlab2d --no-install-package dm-meltingpot"
    fi
    ;;
stub)
    mkdir -p "$2/pack/assets/saved_models"
    touch "$2/pack/assets/saved_models/.keep"
    tar czf "$2/$ASSETS.tar.gz" -C "$2/pack" assets
    rm -r "$2/pack"
    ;;
*)
    echo "usage: meltingpot.sh check | stub DIR" >&2
    exit 2
    ;;
esac
