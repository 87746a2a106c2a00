# Sourced by run: builds the test programs, and providers with various faults.
# shellcheck shell=bash disable=SC2154

build "$here/probe.c" -L"$theirs" -libverbs
build "$here/../providers/verbs_walk.c" -L"$theirs" -libverbs

# odd NAME FLAGS...: builds fixtures/odd.c as a provider with the fault that FLAGS select.
odd() {
    local name=$1
    shift
    gcc -std=gnu11 -O1 -Wall -Wextra -Werror -shared -fPIC -o "$fixtures/$name-rdmav34.so" \
        "$here/fixtures/odd.c" "$@"
}
odd silent -DSILENT
odd says -DSAYS
odd nodevice -DNO_DEVICE
odd nocontext
odd narrow -DNARROW
odd nomatch -DNO_MATCH
odd notable -DNO_TABLE
odd twice -DTWICE
odd unresolved -DFUTURE

# A provider that requires a symbol version that no library has.
echo 'IBVERBS_PRIVATE_99 { global: symbol_of_the_future; };' > "$work/future.map"
echo 'void symbol_of_the_future(void); void symbol_of_the_future(void) { }' > "$work/future.c"
mkdir -p "$work/future"
gcc -shared -fPIC -Wl,-soname,libibverbs.so.1 -Wl,--version-script,"$work/future.map" \
    -o "$work/future/libibverbs.so" "$work/future.c"
odd future -DFUTURE -L"$work/future" -libverbs

# Files that are not valid providers.
good=$(dirname "$(realpath "${C_LIB:-/usr/lib/$(gcc -print-multiarch)/libibverbs.so.1}")")
good=$good/libibverbs/librxe-rdmav34.so
# patched NAME OFFSET BYTES: a valid provider with some bytes overwritten.
patched() {
    cp "$good" "$fixtures/$1-rdmav34.so"
    printf '%b' "$3" | dd of="$fixtures/$1-rdmav34.so" bs=1 seek="$2" conv=notrunc status=none
}
patched class32 4 '\x01'
patched othermachine 18 '\xf3\x00'
patched badmagic 0 'XXXX'
patched executable 16 '\x02\x00'
for size in 0 10 64 1000 9000; do
    head -c $size "$good" > "$fixtures/cut$size-rdmav34.so"
done
echo 'not a shared object' > "$fixtures/text-rdmav34.so"
mkdir "$fixtures/directory-rdmav34.so"
ln -s /nowhere "$fixtures/dangling-rdmav34.so"
ln -s loop-rdmav34.so "$fixtures/loop-rdmav34.so"
cp "$good" "$fixtures/fine-rdmav34.so"
cp "$good" "$fixtures/unreadable-rdmav34.so"
chmod 000 "$fixtures/unreadable-rdmav34.so"
# Found through the library search path (extra_path).
cp "$good" "$fixtures/libelsewhere-rdmav34.so"
