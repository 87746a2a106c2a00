# shellcheck shell=bash
# Functions for source packages, of which Debian's and rpm's have the same tar files. To be sourced after
# scripts/common.sh, with SOURCE_DATE_EPOCH set.

# source_tree DIRECTORY: the files that git knows.
source_tree() {
    mkdir -p "$1"
    git -C "$REPO" ls-files -z | tar -C "$REPO" --null -T - -cf - | tar -C "$1" -xf -
}

# vendor DIRECTORY: the crates of Cargo.lock, all of which cargo wants. Of those that are not needed to build
# the packages only the manifest stays, with an empty library.
vendor() {
    local crate sum needed
    (cd "$REPO" && "${CARGO:-cargo}" vendor --quiet --locked --versioned-dirs "$1" >/dev/null)
    needed=$(cd "$REPO" && "${CARGO:-cargo}" tree --locked -p libibverbs-rs -p with-ibverbs-rs \
        -p uroce-ctl -e normal,build --prefix none --target x86_64-unknown-linux-gnu |
        awk '/^[^ ]+ v[^ ]+$/ || /^[^ ]+ v[^ ]+ \(\*\)$/ {print $1 "-" substr($2, 2)}')
    [ -n "$needed" ] || die "cargo tree lists no crates"
    for crate in "$1"/*; do
        ! grep -qxF "${crate##*/}" <<<"$needed" || continue
        sum=$(sed -nE 's/.*"package":"([0-9a-f]+)".*/\1/p' "$crate/.cargo-checksum.json")
        find "$crate" -mindepth 1 ! -name Cargo.toml -delete 2>/dev/null || true
        find "$crate" -mindepth 1 -type d -exec rm -rf {} +
        # Targets, and a build script, whose files are gone.
        awk '/^\[/ {skip = /^\[\[?(lib|bin|example|test|bench)\]?\]/} !skip' "$crate/Cargo.toml" |
            sed -E 's/^build = .*/build = false/; /^(links|default-run|autolib) = /d' >"$crate/new"
        mv "$crate/new" "$crate/Cargo.toml"
        mkdir "$crate/src"
        : >"$crate/src/lib.rs"
        printf '{"files":{},"package":"%s"}\n' "$sum" >"$crate/.cargo-checksum.json"
    done
}

# pack DIRECTORY FILE: a directory of the present one as a tar file that depends on its contents alone.
pack() {
    tar --sort=name --format=gnu --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner \
        -cf - "$1" | xz -6 -T1 >"$2"
}
