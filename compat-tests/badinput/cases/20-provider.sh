# providers that are missing, corrupt, for another ABI version, or do not register
# shellcheck shell=bash disable=SC2154,SC2034

tree rxe0 name=odd0,abi=7
export SYSFS_PATH=$sys IBV_SHOW_WARNINGS=1
# Ours knows from the file that the provider is of an ABI that it does not have.
supported='34, 57, 59, 64 and 65 (rdma-core 36 to 65)'
future="s/LIBDIR.*IBVERBS_PRIVATE_99.*/it has provider ABI 99 (of rdma-core 99); supported are $supported/"
for name in missing class32 othermachine badmagic executable cut0 cut10 cut64 cut1000 cut9000 text directory \
    dangling loop fine silent says nodevice nocontext narrow nomatch notable twice unresolved future; do
    # In addition to the distribution's configuration, and instead of it.
    [ $name != future ] || otherwise=$future
    RDMAV_DRIVERS=$fixtures/$name check "provider: $name" "$probe" open
    rm -rf "$work/conf"; mkdir -p "$work/conf"
    echo "driver $fixtures/$name" > "$work/conf/test"
    in_namespace="mount --bind $work/conf $builtin_dir;"
    [ $name != future ] || otherwise=$future
    check "provider: $name, from the configuration" "$probe" open
done
as_nobody=1
RDMAV_DRIVERS=$fixtures/unreadable check "provider: unreadable" "$probe" open
echo 'driver elsewhere' > "$work/conf/test"
in_namespace="mount --bind $work/conf $builtin_dir;"
check "provider: not on the library search path" "$probe" open
in_namespace="mount --bind $work/conf $builtin_dir;" extra_path=$fixtures
check "provider: on the library search path" "$probe" open
unset IBV_SHOW_WARNINGS
