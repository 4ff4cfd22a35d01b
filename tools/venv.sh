#!/bin/sh
# Makes .venv and installs the pinned packages. Usage: venv.sh STAMP REQUIREMENTS.txt
# STAMP is a file inside .venv whose name carries a hash of the requirements: it exists when all is installed.
# Safe to call twice at once: the second call waits for the first and then finds the stamp.
set -eu
cd "$(dirname "$0")/.."
stamp=$1
requirements=$2

if [ "${STITCHWEB_VENV_LOCKED:-}" != yes ] && command -v flock >/dev/null 2>&1; then
    STITCHWEB_VENV_LOCKED=yes exec flock .venv.lock sh tools/venv.sh "$@"
fi
if [ -e "$stamp" ]; then exit 0; fi

supported() {
    "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' >/dev/null 2>&1
}

# The newest supported Python; PYTHON=… overrides.
python=""
for name in ${PYTHON:-python3.13 python3.12 python3.11 python3}; do
    if command -v "$name" >/dev/null 2>&1 && supported "$name"; then
        python=$name
        break
    fi
done
if [ -z "$python" ]; then
    found=$("${PYTHON:-python3}" --version 2>/dev/null || echo "none")
    echo "StitchWeb needs Python 3.11, 3.12 or 3.13, found: $found. Install one (Debian: apt-get install python3 python3-venv)" \
        "or name it: make PYTHON=/path/to/python3.12 …" >&2
    exit 1
fi
if ! command -v c++ >/dev/null 2>&1 && ! command -v g++ >/dev/null 2>&1; then
    sh tools/system.sh g++ "building the kernels that the engineers write"
fi

# An environment of a Python that has gone, or is too old, is made anew; one that works is kept and brought up to date.
if [ -e .venv ] && ! supported .venv/bin/python; then
    echo "The virtual environment in .venv does not work with a supported Python; making it anew."
    rm -rf .venv
fi
if [ ! -e .venv/bin/pip ]; then
    if ! "$python" -c 'import ensurepip' >/dev/null 2>&1; then
        # Debian and Ubuntu ship venv's other half in a package of its own.
        version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
        sh tools/system.sh "python$version-venv" "making a virtual environment"
    fi
    echo "Making the virtual environment .venv with $("$python" --version)."
    "$python" -m venv .venv
fi

pip_install() {
    # Bytecode is left to the first import: compiling all of it takes as long as installing it.
    .venv/bin/python -m pip install -qq --disable-pip-version-check --no-input --no-compile "$@" </dev/null || {
        echo "pip could not install $requirements; its message is above. Mend the cause and run make again." >&2
        exit 1
    }
}

echo "Installing the pinned packages of $requirements into .venv; the first time takes about a minute."
# The sandbox sees these packages read-only and could never keep what it compiled, so torch and what it imports are compiled
# here, on the other core while pip goes on with the rest.
pip_install --constraint constraints.txt $(grep -E '^(torch|numpy)==' requirements.txt)
# A file written for another Python may not compile; it is then never imported either. Of the parts that are left out, importing
# compiles what there is use for.
(
    cd "$(.venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')"
    PYTHONDONTWRITEBYTECODE="" "$OLDPWD/.venv/bin/python" -c "import torch, torch._inductor.compile_fx"
    "$OLDPWD/.venv/bin/python" -m compileall -q -j 0 -x '/(tests|testing|benchmarks|distributed|onnx|ao|_vendor)/' \
        torch numpy sympy mpmath networkx filelock fsspec jinja2 typing_extensions.py
) >/dev/null 2>&1 &
pip_install --constraint constraints.txt --requirement "$requirements"
wait
rm -f "${stamp%-*}"-*
touch "$stamp"
