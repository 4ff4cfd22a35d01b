#!/bin/sh
# Installs one system package, after saying which and why. Usage: system.sh PACKAGE "what it is needed for"
# Exit status 1, with a sentence, where that cannot be done here.
set -eu
package=$1
reason=$2

by_hand() {
    echo "$1 $package is needed for $reason. Install it by hand and run make again." >&2
    exit 1
}

command -v apt-get >/dev/null 2>&1 || by_hand "There is no apt-get on this system."
if [ "$(id -u)" -eq 0 ]; then
    as_root=""
elif command -v sudo >/dev/null 2>&1; then
    # Without a terminal nobody can type a password: fail at once instead of waiting.
    if [ -t 0 ]; then as_root="sudo"; else as_root="sudo -n"; fi
else
    by_hand "You are not root and there is no sudo."
fi

echo "Installing the system package $package ($reason)."
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# DPkg::Lock::Timeout: another apt may be at work, for instance a second make. --no-install-recommends keeps it small.
install() {
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=300 \
        install --no-install-recommends "$package" >"$log" 2>&1 </dev/null
}
# A fresh image has no package lists, an old one has lists of files that are gone: refresh them when the first try fails.
if ! install; then
    $as_root apt-get -q -o DPkg::Lock::Timeout=300 update >"$log" 2>&1 </dev/null || true
    if ! install; then
        tail -n 15 "$log" >&2
        by_hand "apt-get could not install it (its last lines are above)."
    fi
fi
