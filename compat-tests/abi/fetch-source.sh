#!/bin/sh
# fetch-source.sh [RELEASE]: downloads rdma-core's source package for the headers that only providers use
# (driver.h, kern-abi.h, cmd_ioctl.h), which no binary package contains. Prints the directory of a tree with
# these headers and the version in the file "version". Later runs find it in the cache.
#
# RELEASE is one of Debian's (trixie, sid). Without it, the version is that of the installed libibverbs-dev.
# If the mirror no longer has that (mirrors drop files of old releases), it is Debian 13's, whose providers
# have the same ABI 34.
#
# Environment: CACHE is the cache directory (default ~/.cache/libibverbs-rs).
#
# Apt uses separate directories and sources: the system's are not changed, and root is not needed. Tests read
# rdma-core's files from the cache; they are never copied into this project.
set -eu

cache=${CACHE:-${LIBIBVERBS_RS_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/libibverbs-rs}}

say() {
    echo "fetch-source.sh: $*" >&2
}

die() {
    say "$@"
    exit 1
}

release=${1:-}
version=$(dpkg-query -W -f '${source:Version}' libibverbs-dev 2>/dev/null) || version=
[ -n "$version" ] || die 'the package libibverbs-dev is not installed: run "make deps"'
command -v python3 >/dev/null || die 'python3 is missing: run "make deps"'

headers=$cache/rdma-core-${release:-$version}
if [ -e "$headers/version" ]; then
    echo "$headers"
    exit
fi

work=$cache/fetch-source.$$
trap 'rm -rf "$work"' EXIT

# download SOURCE-ENTRIES PACKAGE: downloads the upstream tarball of a source package to $work/source.
download() {
    rm -rf "$work"
    mkdir -p "$work/lists/partial" "$work/archives/partial" "$work/source"
    echo "$1" >"$work/sources.list"
    for command in update "source --tar-only $2"; do
        # shellcheck disable=SC2086
        (cd "$work/source" && apt-get -q -o Dir::Etc::sourcelist="$work/sources.list" \
            -o Dir::Etc::sourceparts=- -o Dir::State::lists="$work/lists" -o Dir::Cache="$work" \
            -o Dir::Cache::archives="$work/archives" -o APT::Sandbox::User= \
            -o Acquire::Languages=none $command) >&2 || return 1
    done
}

of_debian() { download "deb-src http://deb.debian.org/debian $1 main" rdma-core; }

# madison prints: libibverbs-dev | VERSION | URI SUITE/COMPONENT ARCHITECTURE Packages
origin=$(apt-cache madison libibverbs-dev | awk -v v="$version" '$3 == v { print $5, $6 }' |
    sed 's,^\([^ ]*\) \(.*\)/\([^/]*\)$,deb-src \1 \2 \3,' | sort -u)
if [ -n "$release" ]; then
    of_debian "$release" ||
        die "cannot download the source of rdma-core in $release: check the network and apt"
elif ! { [ -n "$origin" ] && download "$origin" "rdma-core=$version"; }; then
    say "the source of rdma-core $version cannot be downloaded; using Debian 13's"
    of_debian trixie ||
        die 'cannot download the source of rdma-core: check the network and apt'
fi
tarball=$(echo "$work"/source/rdma-core_*.orig.tar.*)
got=${tarball##*/rdma-core_}
got=${got%.orig.tar.*}
mkdir "$work/tree"
tar -xf "$tarball" -C "$work/tree" --strip-components=1

# Lay out the headers as rdma-core's build does.
src=$work/tree
inc=$work/headers
mkdir -p "$inc/infiniband" "$inc/kernel-abi"
cp "$src"/libibverbs/*.h "$src/kernel-headers/rdma/ib_user_ioctl_verbs.h" "$inc/infiniband"
cp -r "$src/kernel-headers/rdma" "$src/ccan" "$src/util" "$inc"
python3 "$src/buildlib/make_abi_structs.py" \
    "$src/kernel-headers/rdma/ib_user_verbs.h" "$inc/kernel-abi/ib_user_verbs.h"
# The results of its cmake checks that these headers use.
for have in STATEMENT_EXPR BUILTIN_TYPES_COMPATIBLE_P TYPEOF ISBLANK BUILTIN_CLZ BUILTIN_CLZL; do
    echo "#define HAVE_$have 1"
done >"$inc/config.h"
echo "$got" >"$inc/version"
rm -rf "$headers"
# Another process may have been faster.
mv -T "$inc" "$headers" || [ -e "$headers/version" ] || die "cannot write $headers"
echo "$headers"
