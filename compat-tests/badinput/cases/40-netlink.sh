# netlink that is refused or answers nonsense
# shellcheck shell=bash disable=SC2154,SC2034

tree rxe0 mlx5_0
SYSFS_PATH=$sys
BENCH_NL_DEVICES=$("$bench_dir/mksys" --netlink "$sys")
export SYSFS_PATH BENCH_NL_DEVICES
for mode in ok EPERM EPROTONOSUPPORT EAFNOSUPPORT EACCES EMFILE ENFILE ENOMEM ENOBUFS send=EPERM send=ECONNREFUSED send=ENOBUFS \
    recv=EAGAIN recv=ENOBUFS recv=ENOMEM recv=EPERM eof garbage error=EPERM error=EINVAL error=EOPNOTSUPP \
    error=ENODATA short-error overrun noop cut half-header attr-too-long attr-too-short short-index no-index no-name \
    unterminated-name long-name empty-name unknown-attrs wrong-seq wrong-pid other-type len-too-big interrupted no-done \
    done-error no-chardev no-chardev-abi long-chardev cut-chardev; do
    # The original reads on into the next attribute, to the first NUL.
    [ "$mode" != unterminated-name ] || otherwise='s/abcdefgh[[:cntrl:]]/abcdefgh/g'
    BENCH_NL=$mode check "netlink: $mode" "$probe" open
done
leaks=0
BENCH_NL=many check "netlink: 600 devices" "$probe" list
BENCH_NL=ok BENCH_NL_DEVICES='' check "netlink: no devices" "$probe" list
while IFS='|' read -r name devices; do
    BENCH_NL=ok BENCH_NL_DEVICES=$devices check "netlink: $name" "$probe" open
done << 'DEVICES'
no driver id|1:rxe0:1:uverbs0:2:-:231:192
driver id of another provider|1:rxe0:1:uverbs0:1:1:231:192
unknown driver id|1:rxe0:1:uverbs0:2:999:231:192
wrong ABI|1:rxe0:1:uverbs0:77:14:231:192
no character device|1:rxe0:1:-:2:14:231:192
character device of another number|1:rxe0:1:uverbs0:2:14:231:193
big minor|1:rxe0:1:uverbs0:2:14:231:70000
node type 0|1:rxe0:0:uverbs0:2:14:231:192
node type 4|1:rxe0:4:uverbs0:2:14:231:192
node type 255|1:rxe0:255:uverbs0:2:14:231:192
device that sysfs does not know|1:other0:1:uverbs0:2:14:231:192
the same index twice|1:rxe0:1:uverbs0:2:14:231:192,1:rxe1:1:uverbs1:2:14:231:193
the same name twice|1:rxe0:1:uverbs0:2:14:231:192,2:rxe0:1:uverbs1:2:14:231:193
index 0|0:rxe0:1:uverbs0:2:14:231:192
index -1|4294967295:rxe0:1:uverbs0:2:14:231:192
a path for a name|1:../../rxe0:1:uverbs0:2:14:231:192
a path for a uverbs name|1:rxe0:1:../uverbs0:2:14:231:192
DEVICES
# Without GET_CHARDEV (kernels before 5.1) the uverbs name comes from the device's own sysfs directory.
for dev in rxe0 mlx5_0; do
    mkdir -p "$sys/class/infiniband/$dev/device/infiniband_verbs"
    n=0; [ $dev = rxe0 ] || n=1
    cp -r "$sys/class/infiniband_verbs/uverbs$n" "$sys/class/infiniband/$dev/device/infiniband_verbs/"
done
BENCH_NL=no-chardev check "netlink: no GET_CHARDEV, name from sysfs" "$probe" open
rm "$sys/class/infiniband/rxe0/device/infiniband_verbs/uverbs0/dev"
BENCH_NL=no-chardev check "netlink: no GET_CHARDEV, sysfs broken" "$probe" open
for cof in '' 0 1 7; do
    for mode in ok error=EPERM EPERM; do
        BENCH_NL=$mode BENCH_NL_COF=$cof check "netlink: copy on fork '$cof' ($mode)" "$probe" fork
    done
done
unset BENCH_NL_DEVICES
