#!/bin/sh
# Checks what `make setup` cannot install, and prints the Python to use. PYTHON=/path/to/python chooses one.
set -eu

stop() {
    echo "error: $1" >&2
    exit 2
}

is_new_enough() {
    command -v "$1" >/dev/null 2>&1 && "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

if [ -n "${PYTHON:-}" ]; then
    is_new_enough "$PYTHON" || stop "PYTHON is '$PYTHON', which is no Python 3.11 or newer; name another, or unset it."
else
    for candidate in python3.12 python3.11 python3.13 python3 python; do
        if is_new_enough "$candidate"; then
            PYTHON=$candidate
            break
        fi
    done
    [ -n "${PYTHON:-}" ] || stop "there is no Python 3.11 or newer on PATH; install one, or name it with PYTHON=/path/to/python."
fi
"$PYTHON" -c 'import ensurepip, venv' >/dev/null 2>&1 ||
    stop "$PYTHON cannot make virtual environments; install its venv module (on Debian: apt-get install python3-venv)."

command -v node >/dev/null 2>&1 || stop "Node.js is not on PATH; install version 20 or newer."
node_version=$(node --version)
node_major=${node_version#v}
[ "${node_major%%.*}" -ge 20 ] || stop "Node.js is $node_version; install version 20 or newer."
command -v npm >/dev/null 2>&1 || stop "npm is not on PATH; install it (it comes with Node.js, on Debian as the package npm)."

command -v "$PYTHON"
