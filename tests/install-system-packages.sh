#!/bin/sh
# Install what tests/system-packages.txt lists and the host lacks: as root on Debian or Ubuntu, else say what is missing.
set -eu

list=$(dirname "$0")/system-packages.txt
missing=
while read -r package proof reason; do
    case $package in ''|'#'*) continue ;; esac
    found=
    for place in $proof; do
        case $place in
            /*) [ ! -e "$place" ] || found=yes ;;
            *) ! command -v "$place" >/dev/null 2>&1 || found=yes ;;
        esac
    done
    if [ -z "$found" ]; then
        echo "missing: $package ($reason)"
        missing="$missing $package"
    fi
done <"$list"

[ -n "$missing" ] || exit 0

if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null 2>&1; then
    echo "tests that need these packages are skipped; to run them: apt-get install$missing"
    exit 0
fi
export DEBIAN_FRONTEND=noninteractive
# shellcheck disable=SC2086  # a list of names
if ! apt-get install -y -q --no-install-recommends $missing; then
    apt-get update -q && apt-get install -y -q --no-install-recommends $missing ||
        echo "could not install$missing; tests that need them are skipped, or fail when CI=true"
fi
