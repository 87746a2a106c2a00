#!/bin/bash
# build.sh: builds all fuzz targets in $OUT, each with its seeds in TARGET_seed_corpus.zip, as OSS-Fuzz wants
# them. $SRC/libibverbs-rs is the source tree. It runs without OSS-Fuzz too (README.md).
set -euo pipefail
cd "$SRC/libibverbs-rs"
cargo fuzz build --release
built=${CARGO_TARGET_DIR:-fuzz/target}/x86_64-unknown-linux-gnu/release
for file in fuzz/fuzz_targets/*.rs; do
    target=$(basename "$file" .rs)
    cp "$built/$target" "$OUT/"
    (cd "fuzz/corpus/$target" && zip -q -r - .) >"$OUT/${target}_seed_corpus.zip"
done
