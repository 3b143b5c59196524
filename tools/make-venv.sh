#!/bin/sh
# Make a virtual environment with the first Python that is new enough: sh tools/make-venv.sh FOLDER
set -eu

folder=${1:?usage: make-venv.sh FOLDER}

for candidate in python3.11 python3.12 python3.13 python3; do
    # A name on PATH may be a launcher for a version that is not installed, so it is run and not only looked up.
    if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
        python=$candidate
        break
    fi
done
if [ -z "${python:-}" ]; then
    echo "bulksigner needs Python 3.11 or newer; none of python3.11, python3.12, python3.13, python3 is." >&2
    echo "On Debian 12 and Ubuntu 24.04: apt-get install python3 python3-venv" >&2
    exit 1
fi
if ! "$python" -c 'import ensurepip, venv' >/dev/null 2>&1; then
    version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    echo "$python has no venv module. On Debian and Ubuntu: apt-get install python3-venv python$version-venv" >&2
    exit 1
fi
echo "making $folder with $("$python" --version)"
exec "$python" -m venv "$folder"
