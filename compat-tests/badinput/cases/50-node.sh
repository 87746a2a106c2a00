# device nodes that are missing, cannot be opened, or belong to another device
# shellcheck shell=bash disable=SC2154,SC2034,SC2016

tree rxe0
export SYSFS_PATH=$sys
for mode in absent EACCES ELOOP open=EACCES open=ENXIO open=ENODEV open=EMFILE wrong; do
    FAKE_NODES=$mode check "node: $mode" "$probe" open
done

# Real nodes in a private /dev. The device has the number of /dev/null.
tree rxe0,dev=1:3
own_dev='mount -t tmpfs none /mnt; mkdir /mnt/infiniband /mnt/char /mnt/shm;
    for n in null:3 zero:5 full:7 random:8 urandom:9; do mknod -m 666 /mnt/${n%:*} c 1 ${n#*:}; done;
    ln -s /proc/self/fd /mnt/fd; mount --move /mnt /dev;'
export FAKE_NODES=real
in_namespace="$own_dev mknod -m 666 /dev/infiniband/uverbs0 c 1 3;"
check "node: present" "$probe" open
in_namespace="$own_dev rmdir /dev/infiniband;"
check "node: no /dev/infiniband" "$probe" open
in_namespace="$own_dev mknod -m 000 /dev/infiniband/uverbs0 c 1 3;" as_nobody=1
check "node: no permission" "$probe" open
in_namespace="$own_dev mknod -m 666 /dev/infiniband/uverbs0 c 1 3; chmod 000 /dev/infiniband;" as_nobody=1
check "node: no permission for the directory" "$probe" open
in_namespace="$own_dev mknod -m 666 /dev/infiniband/uverbs0 c 1 5; ln -s ../null /dev/char/1:3;"
check "node: wrong number, the right one in /dev/char" "$probe" open
in_namespace="$own_dev mknod -m 666 /dev/infiniband/uverbs0 c 1 5; rmdir /dev/char;"
check "node: wrong number, no /dev/char" "$probe" open
in_namespace="$own_dev echo x > /dev/infiniband/uverbs0; chmod 666 /dev/infiniband/uverbs0;
    rmdir /dev/char;"
check "node: a regular file" "$probe" open
in_namespace="$own_dev mkdir /dev/infiniband/uverbs0; rmdir /dev/char;"
check "node: a directory" "$probe" open
in_namespace="$own_dev mknod -m 666 /dev/infiniband/uverbs0 c 1 5;" leaks=0
check "node: never appears (5 s)" "$probe" open
in_namespace="$own_dev mknod -m 666 /dev/infiniband/uverbs0 c 1 5;
    (sleep 1; ln -s ../null /dev/char/1:3) &" leaks=0
check "node: appears after a second" "$probe" open
in_namespace="$own_dev mknod -m 666 /dev/infiniband/uverbs0 c 1 5;
    (for i in 1 2 3 4 5 6; do sleep 0.2; ln -s ../zero /dev/char/9:\$i; done
    ln -s ../null /dev/char/1:3) &" leaks=0
check "node: appears after others" "$probe" open
in_namespace="$own_dev mknod -m 666 /dev/infiniband/uverbs0 c 1 5;
    (sleep 1; ln -s ../zero /dev/char/1:3) &" leaks=0
check "node: only a wrong one appears (5 s)" "$probe" open
unset FAKE_NODES
