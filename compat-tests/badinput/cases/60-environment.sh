# environment variables, resource limits, and privileged programs
# shellcheck shell=bash disable=SC2154,SC2034

tree rxe0 mlx5_0 name=odd0
export SYSFS_PATH=$sys
check "IBV_SHOW_WARNINGS unset" "$probe" list
for value in '' 0 1 no; do
    IBV_SHOW_WARNINGS=$value check "IBV_SHOW_WARNINGS='$value'" "$probe" list
done
tree rxe0
for value in '' 0 1 no 00; do
    for variable in RDMAV_FORK_SAFE IBV_FORK_SAFE; do
        export $variable="$value"
        check "$variable='$value'" "$probe" reg
        for huge in '' 0 1; do
            RDMAV_HUGEPAGES_SAFE=$huge check "$variable='$value' RDMAV_HUGEPAGES_SAFE='$huge'" "$probe" fork
        done
        unset $variable
    done
done
RDMAV_FORK_SAFE=0 IBV_FORK_SAFE=1 check "RDMAV_FORK_SAFE=0 IBV_FORK_SAFE=1" "$probe" reg
check "fork safety" "$probe" fork
for variable in RDMAV_DRIVERS IBV_DRIVERS; do
    for value in '' rxe nosuch rxe:mlx5 'rxe;nosuch' : ';;' 'nosuch:' ':nosuch' 'rxe:rxe' ' rxe' 'rxe ' \
        "$fixtures/says" "$fixtures/says;nosuch:$fixtures/silent" /nowhere '%s%n'; do
        export $variable="$value"
        leaks=0
        check "$variable='$value'" "$probe" list
        unset $variable
    done
done
RDMAV_DRIVERS=nosuch1 IBV_DRIVERS=nosuch2 check "RDMAV_DRIVERS and IBV_DRIVERS" "$probe" list
RDMAV_DRIVERS='' IBV_DRIVERS=nosuch2 check "RDMAV_DRIVERS empty, and IBV_DRIVERS" "$probe" list
RDMAV_DRIVERS=$(head -c 20000 /dev/zero | tr '\0' z) check "RDMAV_DRIVERS of 20000 bytes" "$probe" list
RDMAV_DRIVERS=$(head -c 3000 /dev/zero | tr '\0' :) check "RDMAV_DRIVERS of 3000 colons" "$probe" list

# The log, to which providers write too.
for level in '' 0 1 2 3 4 9 -1 0x4 04 nonsense; do
    after="cat $work/verbs.log; rm -f $work/verbs.log"
    leaks=0
    VERBS_LOG_LEVEL=$level VERBS_LOG_FILE=$work/verbs.log \
        check "VERBS_LOG_LEVEL='$level'" "$work/bin/verbs_walk" rxe0
done
leaks=0
VERBS_LOG_LEVEL=4 check "VERBS_LOG_LEVEL without a file" "$work/bin/verbs_walk" rxe0
leaks=0
VERBS_LOG_LEVEL=4 VERBS_LOG_FILE=/nowhere/log \
    check "VERBS_LOG_FILE that cannot be created" "$work/bin/verbs_walk" rxe0
leaks=0
VERBS_LOG_LEVEL=4 VERBS_LOG_FILE='' check "VERBS_LOG_FILE empty" "$work/bin/verbs_walk" rxe0
leaks=0
VERBS_LOG_LEVEL=4 VERBS_LOG_FILE=/dev/full check "VERBS_LOG_FILE on a full disk" "$work/bin/verbs_walk" rxe0

tree rxe0 mlx5_0
gone=''
for command in DESTROY_CQ DESTROY_QP DESTROY_SRQ DEALLOC_PD DEREG_MR DESTROY_AH CLOSE_XRCD DEALLOC_MW \
    EX_DESTROY_WQ EX_DESTROY_FLOW EX_DESTROY_RWQ_IND_TBL DETACH_MCAST; do
    gone=$gone${gone:+,}$command=EIO
done
for variable in RDMAV_ALLOW_DISASSOC_DESTROY MLX4_DEVICE_FATAL_CLEANUP; do
    for value in '' 0 1; do
        export $variable="$value"
        for device in rxe0 mlx5_0; do
            leaks=0
            FAKE_FAIL=$gone check "$variable='$value', device gone ($device)" "$work/bin/verbs_walk" $device
        done
        unset $variable
    done
done

tree rxe0
for kb in 0 16384 32767 32768 32769 65536; do
    limits=--memlock=$kb as_nobody=1
    check "RLIMIT_MEMLOCK $kb" "$probe" list
    limits=--memlock=$kb leaks=0
    check "RLIMIT_MEMLOCK $kb as root" "$probe" list
done
for files in 4 5 6 7 8; do
    limits=--nofile=$files leaks=0
    check "RLIMIT_NOFILE $files" "$probe" open
done
unset SYSFS_PATH
check "no SYSFS_PATH" "$probe" list

# Privileged (set-user-ID, set-group-ID) programs ignore some variables. The C library ignores fewer: none of
# a set-group-ID program's, and it opens the log. With those, ours must print what the C library prints
# without.
for lib in theirs ours; do
    gcc -std=gnu11 -O1 -o "$work/bin/probe-$lib" "$here/probe.c" -L"${!lib}" -libverbs -Wl,-rpath,"${!lib}"
done
setid() {
    local name=$1 lib
    shift
    if ! [[ $name =~ ${ONLY:-.} ]]; then return; fi
    if [ -z "$rooted" ]; then
        skip "$name" 'needs root'
        return
    fi
    for lib in theirs ours; do
        chown "$owner" "$work/bin/probe-$lib"
        chmod "$mode" "$work/bin/probe-$lib"
        unshare -m -n bash -c "$in_namespace"'
            exec setpriv --reuid=65534 --regid=65534 --clear-groups env "$@"' setid "$@" \
            "$work/bin/probe-$lib" list > "$work/$lib.out" 2>&1
        echo "exit code $?" >> "$work/$lib.out"
    done
    [ -z "${plain:-}" ] || cp "$work/theirs.out" "$work/plain.out"
    [ -z "${ignored:-}" ] || cp "$work/plain.out" "$work/theirs.out"
    same "$name" "$work/theirs.out" "$work/ours.out"
    if [ -n "${want:-}" ]; then
        if grep -q "$want" "$work/ours.out"; then
            ok "$name: prints '$want'"
        else
            bad "$name: does not print '$want'"
        fi
    fi
}
tree rxe0,dev=1:3
in_namespace="mount -t tmpfs none /mnt; cp -r $sys/class /mnt/; mount --move /mnt /sys; $own_dev
    mknod -m 666 /dev/infiniband/uverbs0 c 1 3;"
for rights in root:root/4755 root:root/755 root:root/2755; do
    owner=${rights%/*} mode=${rights#*/}
    plain=1 want='1 devices' setid "mode $rights: /sys" A=1
    ignored=''
    [ $mode != 2755 ] || ignored=1
    want='1 devices'
    [ $mode != 755 ] || want='no list'
    setid "mode $rights: SYSFS_PATH" SYSFS_PATH=/nowhere
    want=''
    [ $mode != 755 ] || want='was loaded'
    for variable in RDMAV_DRIVERS IBV_DRIVERS; do
        setid "mode $rights: $variable" "$variable=$fixtures/says"
    done
    want=''
    [ $mode = 755 ] || ignored=1
    setid "mode $rights: VERBS_LOG" VERBS_LOG_LEVEL=4 VERBS_LOG_FILE=/dev/stdout
    ignored=''
    setid "mode $rights: other variables" RDMAV_FORK_SAFE=1 RDMAV_HUGEPAGES_SAFE=1 IBV_SHOW_WARNINGS=1
done
forget
