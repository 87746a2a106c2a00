# sysfs files that are missing, empty, huge or malformed
# shellcheck shell=bash disable=SC2154,SC2034

export SYSFS_PATH=$sys IBV_SHOW_WARNINGS=1

# spoil FILE FAULT: replaces a file of the tree.
spoil() {
    case $2 in
        missing) rm -f "$1" ;;
        empty) : > "$1" ;;
        newline) echo > "$1" ;;
        newlines) printf '\n\n\n' > "$1" ;;
        huge) head -c 1000000 /dev/zero | tr '\0' a > "$1" ;;
        digits) head -c 5000 /dev/zero | tr '\0' 9 > "$1" ;;
        word) echo nonsense > "$1" ;;
        garbage) printf '\x80\xff\x01\x02\x1b[0m%%s%%n\xfe\n' > "$1" ;;
        nul) printf '\0\0\0\0' > "$1" ;;
        nul-behind) printf '%s\0junk\n' "$(cat "$1")" > "$1" ;;
        bare) printf '%s' "$(cat "$1")" > "$1.new"; mv "$1.new" "$1" ;;
        crlf) printf '%s\r\n' "$(cat "$1")" > "$1.new"; mv "$1.new" "$1" ;;
        two-lines) printf '%s\nand more\n' "$(cat "$1")" > "$1.new"; mv "$1.new" "$1" ;;
        blank-first) printf '  \t%s\n' "$(cat "$1")" > "$1.new"; mv "$1.new" "$1" ;;
        negative) echo -1 > "$1" ;;
        plus) echo +1 > "$1" ;;
        zero) echo 0 > "$1" ;;
        hex) echo 0x2 > "$1" ;;
        big) echo 99999999999999999999999 > "$1" ;;
        over-32) echo 4294967298 > "$1" ;;
        half) echo 231: > "$1" ;;
        no-colon) echo 231 > "$1" ;;
        dev-more) echo 231:192:7 > "$1" ;;
        dev-big) echo 99999999999:1 > "$1" ;;
        dev-negative) echo -1:-1 > "$1" ;;
        short-guid) echo 0200:00ff:fe00 > "$1" ;;
        long-guid) echo 0200:00ff:fe00:0901:1234 > "$1" ;;
        wide-guid) echo 02000:00ff:fe00:0901 > "$1" ;;
        short-gid) echo fe80:0000:0000:0000 > "$1" ;;
        zero-gid) echo 0000:0000:0000:0000:0000:0000:0000:0000 > "$1" ;;
        wide-gid) echo fe800:0000:0000:0000:0000:00ff:fe00:0901 > "$1" ;;
        roce-1) echo 'IB/RoCE v1' > "$1" ;;
        roce-2-lower) echo 'roce v2' > "$1" ;;
        slash) echo ../../etc > "$1" ;;
        dots) echo .. > "$1" ;;
        directory) rm -f "$1"; mkdir "$1" ;;
        dangling) rm -f "$1"; ln -s /nowhere "$1" ;;
        unreadable) chmod 000 "$1" ;;
        len=*) head -c "${2#len=}" /dev/zero | tr '\0' 1 > "$1" ;;
        lenn=*) { head -c "${2#lenn=}" /dev/zero | tr '\0' 1; echo; } > "$1" ;;
    esac
}

everywhere='missing empty newline newlines huge digits word garbage nul nul-behind bare crlf two-lines
    blank-first negative plus zero hex big over-32 directory dangling unreadable'
while read -r device file more; do
    # The rest of the line lists more faults for this file.
    for how in $everywhere $more; do
        tree "$device"
        case $file in
            ABI) path=$sys/class/infiniband_verbs/abi_version ;;
            uverbs/*) path=$uv/${file#uverbs/} ;;
            *) path=$ib/$file ;;
        esac
        spoil "$path" "$how"
        # All faults are compared; only the main ones are checked for leaks.
        case $how in missing | empty | huge | garbage | word) ;; *) leaks=0 ;; esac
        [ "$how" != unreadable ] || as_nobody=1
        # The C library ignores that an empty file returns no data, and parses uninitialized memory.
        case $how:$file in
            empty:uverbs/dev | empty:node_guid | empty:ports/1/[gp]*s/0 | empty:ABI) undefined=1 ;;
        esac
        check "sysfs: $file $how ($device)" "$probe" open
    done
done << 'FILES'
rxe0 uverbs/ibdev len=31 len=63 len=64 lenn=63 lenn=64 len=65 slash dots
rxe0 uverbs/dev half no-colon dev-more dev-big dev-negative len=31 len=32 lenn=31 lenn=32
rxe0 uverbs/abi_version len=31 len=32 lenn=31 lenn=32
rxe0 node_type len=31 len=32 lenn=31 lenn=32
rxe0 node_guid short-guid long-guid wide-guid len=23 len=24 lenn=23 lenn=24
rxe0 ports/1/gids/0 short-gid zero-gid wide-gid len=40 len=41 lenn=40 lenn=41
rxe0 ports/1/pkeys/0 len=7 len=8 lenn=7 lenn=8
rxe0 ports/1/gid_attrs/types/0 roce-1 roce-2-lower len=31 len=32
rxe0 ABI len=7 len=8 lenn=7 lenn=8
mlx5_0 device/modalias len=511 len=512 lenn=511 lenn=512
mlx5_0 uverbs/ibdev
FILES
for abi in 0 1 2 3 4 5 6 7 99 -1 0x6 '6 7' ' 6' 06; do
    tree rxe0
    echo "$abi" > "$sys/class/infiniband_verbs/abi_version"
    check "sysfs: kernel ABI '$abi'" "$probe" open
done
tree rxe0
mv "$sys/class/infiniband/rxe0" "$sys/class/infiniband/gone"
check "sysfs: no directory of the device" "$probe" open
tree rxe0
echo file > "$sys/class/infiniband_verbs/uverbs9"
mkdir "$sys/class/infiniband_verbs/.hidden" "$sys/class/infiniband_verbs/empty"
ln -s /nowhere "$sys/class/infiniband_verbs/dangling"
mkdir "$sys/class/infiniband_verbs/$(head -c 100 /dev/zero | tr '\0' u)"
check "sysfs: entries that are not devices" "$probe" open
tree rxe0
cp -r "$uv" "$sys/class/infiniband_verbs/$(head -c 63 /dev/zero | tr '\0' u)"
cp -r "$uv" "$sys/class/infiniband_verbs/$(head -c 64 /dev/zero | tr '\0' v)"
cp -r "$uv" "$sys/class/infiniband_verbs/uverbs55"
check "sysfs: several names for one device, some of them long" "$probe" list
rm -rf "$sys/class/infiniband_verbs"
check "sysfs: no infiniband_verbs" "$probe" list
touch "$sys/class/infiniband_verbs"
check "sysfs: infiniband_verbs is a file" "$probe" list
tree
check "sysfs: no device at all" "$probe" list
rm "$sys/class/infiniband_verbs/abi_version"
check "sysfs: no device and no ABI" "$probe" list
unset IBV_SHOW_WARNINGS

tree rxe0
long=$work/$(head -c 120 /dev/zero | tr '\0' l)
mkdir -p "$long/$(head -c 60 /dev/zero | tr '\0' m)"
while IFS='|' read -r name path; do
    SYSFS_PATH=$path check "SYSFS_PATH: $name" "$probe" list
    SYSFS_PATH=$path check "SYSFS_PATH: $name, helpers" "$probe" sysfs
done << PATHS
trailing slash|$sys/
many trailing slashes|$sys////////
double slashes inside|$(dirname "$sys")//$(basename "$sys")
dots|$sys/../$(basename "$sys")/.
not existing|$work/nowhere
a file|$uv/dev
empty|
only slashes|////
root|/
blank|$sys 
format characters|$sys/%s%n
PATHS
cd "$work" || exit 1
SYSFS_PATH=sys check "SYSFS_PATH: relative" "$probe" open
for length in 200 225 226 227 228 229 230 231 240 254 255 256 257 300 5000; do
    # The path of the tree, extended with slashes and dots to this length.
    path=$sys
    while [ ${#path} -lt $((length - 1)) ]; do path=$path/.; done
    while [ ${#path} -lt "$length" ]; do path=${path/\/sys/\/\/sys}; done
    SYSFS_PATH=$path check "SYSFS_PATH: $length bytes" "$probe" open
    leaks=0
    SYSFS_PATH=$path check "SYSFS_PATH: $length bytes, helpers" "$probe" sysfs
    leaks=0
    SYSFS_PATH=$sys$(head -c $((length - ${#sys})) /dev/zero | tr '\0' /) \
        check "SYSFS_PATH: $length bytes with slashes at the end" "$probe" list
done
cd "$here" || exit 1
