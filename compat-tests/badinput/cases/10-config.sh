# the configuration directory and its directives
# shellcheck shell=bash disable=SC2154,SC2034,SC2059

conf=$work/conf
other_etc=$work/etc
mkdir -p "$other_etc"
cp -a /etc/passwd /etc/group /etc/ld.so.cache "$other_etc/" 2> /dev/null

# config TEXT: makes one file with this text the whole configuration.
config() {
    rm -rf "$conf"
    mkdir -p "$conf"
    printf "$@" > "$conf/test.driver"
    in_namespace="mount --bind $conf $builtin_dir;"
}
tree rxe0 mlx5_0
export SYSFS_PATH=$sys

rm -rf "$conf"; mkdir -p "$conf"
in_namespace="mount --bind $conf $builtin_dir;"
check "config: empty directory" "$probe" list
in_namespace="mount --bind $other_etc /etc;"
check "config: no directory" "$probe" list
in_namespace="touch $other_etc/libibverbs.d; mount --bind $other_etc /etc;"
check "config: a file instead of the directory" "$probe" list
rm -f "$other_etc/libibverbs.d"
chmod 000 "$conf"
in_namespace="mount --bind $conf $builtin_dir;" as_nobody=1
check "config: unreadable directory" "$probe" list
chmod 755 "$conf"
echo 'driver rxe' > "$conf/a"; chmod 000 "$conf/a"; echo 'driver mlx5' > "$conf/b"
in_namespace="mount --bind $conf $builtin_dir;" as_nobody=1
check "config: unreadable file" "$probe" list
chmod 644 "$conf/a" "$conf/b"; chmod 444 "$conf"
in_namespace="mount --bind $conf $builtin_dir;" as_nobody=1
check "config: directory without search permission" "$probe" list
rm -rf "$conf"; mkdir -p "$conf/sub"
ln -s /nowhere "$conf/dangling"; ln -s loop "$conf/loop"; mkfifo "$conf/fifo"
echo 'driver rxe' > "$conf/sub/rxe.driver"
echo 'driver rxe' > "$conf/no suffix"
echo 'driver mlx5' > "$conf/.hidden"
in_namespace="mount --bind $conf $builtin_dir;"
check "config: links, FIFO, subdirectory, hidden file" "$probe" list

while IFS='|' read -r name text; do
    config "$text"
    check "config: $name" "$probe" list
done << 'CASES'
empty file|
no newline at the end|driver rxe
bare directive|driver\n
bare directive, no newline|driver
directive and blanks|driver   \n
directive and a tab|driver\t\n
tab between|driver\trxe\ndriver \t mlx5\n
leading blanks| \t driver rxe\n
blank lines|\n\n   \n\t\ndriver rxe\n\n
comments|# a comment\n   # another\ndriver rxe # trailing\n#driver mlx5\n
trailing word|driver rxe mlx5\n
misspelled|drivers rxe\ndriver rxe\n
upper case|DRIVER rxe\n
unknown directive|load rxe\nfoo\n=\ndriver rxe\n
carriage returns|driver rxe\r\ndriver mlx5\r\n
NUL bytes|driver rxe\0mlx5\n\0\ndriver\0 rxe\ndri\0ver rxe\n
binary garbage|\x01\x02\xff\xfe driver\n\x80driver rxe\n
other white space|driver\vrxe\n\fdriver rxe\n
missing driver|driver nosuch\n
missing driver, then a good one|driver nosuch\ndriver rxe\n
a good driver, then a missing one|driver rxe\ndriver nosuch\n
all good drivers, and a missing one|driver rxe\ndriver mlx5\ndriver nosuch\n
the same driver three times|driver rxe\ndriver rxe\ndriver rxe\n
a path with slashes|driver ../libibverbs/rxe\ndriver sub/rxe\n
format characters|driver %%s%%n%%d\n%%s%%n x\n
a name that is a directory|driver /\ndriver .\ndriver ..\n
CASES
config 'driver %s\n' "$(head -c 5000 /dev/zero | tr '\0' x)"
check "config: a name of 5000 bytes" "$probe" list
config '%s\n' "$(head -c 200000 /dev/zero | tr '\0' y)"
check "config: a line of 200000 bytes" "$probe" list
config '%s' "$(for i in $(seq 300); do echo "driver nosuch$i"; done)"
leaks=0
check "config: 300 missing drivers" "$probe" list
