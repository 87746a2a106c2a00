# netlink that fails or returns malformed messages
# shellcheck shell=bash disable=SC2154,SC2034

tree rxe0 mlx5_0
SYSFS_PATH=$sys
FAKE_NL_DEVICES=$("$fake_dir/mksys" --netlink "$sys")
export SYSFS_PATH FAKE_NL_DEVICES
for mode in ok EPERM EPROTONOSUPPORT EAFNOSUPPORT EACCES EMFILE ENFILE ENOMEM ENOBUFS \
    send=EPERM send=ECONNREFUSED send=ENOBUFS recv=EAGAIN recv=ENOBUFS recv=ENOMEM recv=EPERM \
    eof garbage error=EPERM error=EINVAL error=EOPNOTSUPP error=ENODATA short-error overrun noop cut \
    half-header attr-too-long attr-too-short short-index no-index no-name unterminated-name long-name \
    empty-name unknown-attrs wrong-seq wrong-pid other-type len-too-big interrupted no-done done-error \
    no-chardev no-chardev-abi long-chardev cut-chardev; do
    # The C library reads beyond the attribute, up to the next zero byte.
    [ "$mode" != unterminated-name ] || otherwise='s/abcdefgh[[:cntrl:]]/abcdefgh/g'
    FAKE_NL=$mode check "netlink: $mode" "$probe" open
done
leaks=0
FAKE_NL=many check "netlink: 600 devices" "$probe" list
FAKE_NL=ok FAKE_NL_DEVICES='' check "netlink: no devices" "$probe" list
while IFS='|' read -r name devices; do
    FAKE_NL=ok FAKE_NL_DEVICES=$devices check "netlink: $name" "$probe" open
done << 'DEVICES'
no driver id|1:rxe0:1:uverbs0:2:-:231:192
driver id of another provider|1:rxe0:1:uverbs0:1:1:231:192
unknown driver id|1:rxe0:1:uverbs0:2:999:231:192
wrong ABI|1:rxe0:1:uverbs0:77:14:231:192
no character device|1:rxe0:1:-:2:14:231:192
character device with another number|1:rxe0:1:uverbs0:2:14:231:193
big minor|1:rxe0:1:uverbs0:2:14:231:70000
node type 0|1:rxe0:0:uverbs0:2:14:231:192
node type 4|1:rxe0:4:uverbs0:2:14:231:192
node type 255|1:rxe0:255:uverbs0:2:14:231:192
device that is missing in sysfs|1:other0:1:uverbs0:2:14:231:192
the same index twice|1:rxe0:1:uverbs0:2:14:231:192,1:rxe1:1:uverbs1:2:14:231:193
the same name twice|1:rxe0:1:uverbs0:2:14:231:192,2:rxe0:1:uverbs1:2:14:231:193
index 0|0:rxe0:1:uverbs0:2:14:231:192
index -1|4294967295:rxe0:1:uverbs0:2:14:231:192
a path as device name|1:../../rxe0:1:uverbs0:2:14:231:192
a path as uverbs name|1:rxe0:1:../uverbs0:2:14:231:192
DEVICES
# Without GET_CHARDEV (kernels before 5.1) the uverbs name comes from the device's directory in sysfs.
for dev in rxe0 mlx5_0; do
    mkdir -p "$sys/class/infiniband/$dev/device/infiniband_verbs"
    n=0; [ $dev = rxe0 ] || n=1
    cp -r "$sys/class/infiniband_verbs/uverbs$n" "$sys/class/infiniband/$dev/device/infiniband_verbs/"
done
FAKE_NL=no-chardev check "netlink: no GET_CHARDEV, name from sysfs" "$probe" open
rm "$sys/class/infiniband/rxe0/device/infiniband_verbs/uverbs0/dev"
FAKE_NL=no-chardev check "netlink: no GET_CHARDEV, sysfs broken" "$probe" open
for cof in '' 0 1 7; do
    for mode in ok error=EPERM EPERM; do
        FAKE_NL=$mode FAKE_NL_COF=$cof check "netlink: copy on fork '$cof' ($mode)" "$probe" fork
    done
done
unset FAKE_NL_DEVICES
