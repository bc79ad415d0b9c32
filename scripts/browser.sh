#!/bin/sh
# The report is tested in a real browser: Debian's Chromium, driven by playwright.
set -eu
if command -v chromium >/dev/null 2>&1; then exit 0; fi
if ! command -v apt-get >/dev/null 2>&1; then
    echo "browser: no chromium and no apt-get; install Chromium by hand to run the report test" >&2
    exit 1
fi
sudo=""
if [ "$(id -u)" != 0 ]; then sudo=sudo; fi
echo "browser: installing chromium"
$sudo apt-get update -qq
DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq --no-install-recommends chromium >/dev/null
