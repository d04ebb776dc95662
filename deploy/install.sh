#!/bin/sh
# Installs Unbloat from the unpacked tarball that this script lies in.
# usage: ./install.sh [--uninstall]      PREFIX: where to (/usr/local)
set -eu
here=$(cd "$(dirname "$0")" && pwd)
prefix=${PREFIX:-/usr/local}
fail() { echo "install.sh: $*" >&2; exit 1; }

files() { (cd "$here" && find bin lib share -type f -o -type l) | sort; }

if [ "${1:-}" = --uninstall ]; then
    files | while read -r file; do rm -f "$prefix/$file"; done
    for directory in lib/unbloat share/doc/unbloat; do rmdir "$prefix/$directory" 2>/dev/null || true; done
    echo "removed from $prefix"
    exit 0
fi
[ $# -eq 0 ] || fail "usage: PREFIX=/usr/local ./install.sh [--uninstall]"
[ "$(uname -s) $(uname -m)" = "Linux x86_64" ] || fail "this is the tarball for Linux on x86-64, and here is $(uname -s) on $(uname -m)"
"$here/bin/unbloat" version >/dev/null 2>&1 || fail "the binary does not run here: it needs glibc 2.31 or later (Debian 11, Ubuntu 20.04), not musl"
[ -w "$prefix" ] || mkdir -p "$prefix" 2>/dev/null || true
[ -w "$prefix" ] || fail "cannot write to $prefix. Run it as root, or: PREFIX=\$HOME/.local ./install.sh"
files | while read -r file; do
    mkdir -p "$prefix/$(dirname "$file")"
    # Beside its place and then there: a running unbloat keeps the old file.
    cp -P "$here/$file" "$prefix/$file.new"
    mv -f "$prefix/$file.new" "$prefix/$file"
done
echo "installed $("$prefix/bin/unbloat" version) in $prefix"
