#!/bin/sh
# Gets rdma-core's source package for the headers that only providers see (driver.h, kern-abi.h,
# cmd_ioctl.h): no binary package carries them. Prints the directory of a tree of headers made from
# it, with the version in the file "version"; a second run finds it in the cache.
#
# The source that the installed libibverbs-dev was built from; where the mirror has lost it (mirrors
# drop files of old releases), Debian 13's, whose providers are of the same ABI 34.
#
# usage: fetch-source.sh          CACHE names the cache directory, otherwise target/cache
#
# Apt is given directories and sources of its own: /etc/apt and the system's lists stay as they
# are, and nothing here needs to be root. rdma-core's files are read by tests from the cache and
# are never copied into this project.
set -eu

root=$(cd "$(dirname "$0")/../.." && pwd)
cache=${CACHE:-${CARGO_TARGET_DIR:-$root/target}/cache}

say() {
    echo "fetch-source.sh: $*" >&2
}

die() {
    say "$@"
    exit 1
}

version=$(dpkg-query -W -f '${source:Version}' libibverbs-dev 2>/dev/null) || version=
[ -n "$version" ] || die 'the package libibverbs-dev is not installed: run "make deps"'
command -v python3 >/dev/null || die 'there is no python3: run "make deps"'

headers=$cache/rdma-core-$version
if [ -e "$headers/version" ]; then
    echo "$headers"
    exit
fi

work=$cache/fetch-source.$$
trap 'rm -rf "$work"' EXIT

# download SOURCE-ENTRIES PACKAGE: the upstream tarball of a source package into $work/source.
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

# madison prints: libibverbs-dev | VERSION | URI SUITE/COMPONENT ARCHITECTURE Packages
origin=$(apt-cache madison libibverbs-dev | awk -v v="$version" '$3 == v { print $5, $6 }' |
    sed 's,^\([^ ]*\) \(.*\)/\([^/]*\)$,deb-src \1 \2 \3,' | sort -u)
if ! { [ -n "$origin" ] && download "$origin" "rdma-core=$version"; }; then
    say "the source of rdma-core $version cannot be had; taking Debian 13's"
    download "deb-src http://deb.debian.org/debian trixie main" rdma-core ||
        die 'no source of rdma-core can be had: is there a network, and does apt work?'
fi
tarball=$(echo "$work"/source/rdma-core_*.orig.tar.*)
got=${tarball##*/rdma-core_}
got=${got%.orig.tar.*}
mkdir "$work/tree"
tar -xf "$tarball" -C "$work/tree" --strip-components=1

# The headers as rdma-core's own build lays them out.
src=$work/tree
inc=$work/headers
mkdir -p "$inc/infiniband" "$inc/kernel-abi"
cp "$src"/libibverbs/*.h "$src/kernel-headers/rdma/ib_user_ioctl_verbs.h" "$inc/infiniband"
cp -r "$src/kernel-headers/rdma" "$src/ccan" "$src/util" "$inc"
python3 "$src/buildlib/make_abi_structs.py" \
    "$src/kernel-headers/rdma/ib_user_verbs.h" "$inc/kernel-abi/ib_user_verbs.h"
# What its cmake finds out about gcc, as far as these headers ask.
for have in STATEMENT_EXPR BUILTIN_TYPES_COMPATIBLE_P TYPEOF ISBLANK BUILTIN_CLZ BUILTIN_CLZL; do
    echo "#define HAVE_$have 1"
done >"$inc/config.h"
echo "$got" >"$inc/version"
rm -rf "$headers"
# Somebody else may have been faster.
mv -T "$inc" "$headers" || [ -e "$headers/version" ] || die "cannot write $headers"
echo "$headers"
