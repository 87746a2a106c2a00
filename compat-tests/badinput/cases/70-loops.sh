# loops of 10,000 rounds: nothing leaks
# shellcheck shell=bash disable=SC2154,SC2034

export SYSFS_PATH=$sys
for device in rxe0 mlx5_0; do
    tree $device
    FAKE_NL_DEVICES=$("$fake_dir/mksys" --netlink "$sys")
    export FAKE_NL_DEVICES
    for nl in EPROTONOSUPPORT ok; do
        leaks=0 slow=300
        FAKE_NL=$nl check "loop: list and free, $device, netlink $nl" "$probe" loop-list 10000
        leaks=0 slow=300
        FAKE_NL=$nl check "loop: open and close, $device, netlink $nl" "$probe" loop-open 10000
    done
    for io in ENOTTY ok; do
        leaks=0 slow=300
        FAKE_IOCTL=$io check "loop: one object of each kind, $device, ioctl $io" "$probe" loop-verbs 10000
    done
    for fail in GET_CONTEXT CREATE_CQ CREATE_QP REG_MR ALLOC_PD CREATE_SRQ; do
        leaks=0
        FAKE_FAIL=$fail=ENOMEM check "loop: failing $fail, $device" "$probe" loop-verbs 1000
    done
done
for nodes in absent open=EACCES wrong; do
    leaks=0
    FAKE_NODES=$nodes check "loop: failing open, $nodes" "$probe" loop-open 1000
done
tree name=odd0
for odd in nodevice nocontext narrow nomatch; do
    leaks=0
    RDMAV_DRIVERS=$fixtures/$odd check "loop: provider $odd" "$probe" loop-open 1000 2>&1
done
