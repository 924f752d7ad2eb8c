#!/bin/sh
# Runs file system suites of others on a mount over ext4, as root: pjdfstest (built in FOLDER: autoreconf -ifs && ./configure && make
# pjdfstest), which must fail no test that ext4 itself passes, also on a private mount, and fsx of the crate of that name, with maps, on a cache smaller than its file.
#
#     tests/mount_with_outside_suites.sh target/release/forebay FOLDER/pjdfstest FOLDER/bin/fsx [OPERATIONS]
set -eu
program=$(realpath "$1")
suite=$(realpath "$2")
fsx=$(realpath "$3")
operations=${4:-200000}
folder=$(mktemp -d)
cd "$folder"
trap 'umount -l seen below 2>/dev/null || true; rm -rf "$folder"' EXIT
mkdir below seen suite
truncate -s 2G image
mkfs.ext4 -q -F image
mount -o loop image below
mkdir below/plain below/source

# Mounts below/source on seen, and waits for the last flush of the mount before.
mounted() {
    "$program" mount "$folder/below/source" "$folder/seen" --log-file log "$@"
}
unmounted() {
    fusermount3 -u "$folder/seen"
    while ! grep -q "stopped: everything is flushed" log; do sleep 0.1; done
    rm log
}

# The suite knows file systems by their names, and skips tests on others: this one is to pass what ext4 does.
cp -r "$suite/." suite
sed -i 's/^#fs="UFS"/fs="EXT4"/' suite/tests/conf
(cd below/plain && prove -r "$folder/suite/tests" >"$folder/plain.txt" 2>&1) || true
mounted --cache 8MiB
(cd seen && prove -r "$folder/suite/tests" >"$folder/seen.txt" 2>&1) || true
unmounted
# With --private the kernel checks no permissions, and root alone gets in: what the suite does in no other user's name.
alone=$(grep -rLE -e '-[ug] ' --include=*.t "$folder/suite/tests")
(cd below/plain && prove $alone >"$folder/plain-alone.txt" 2>&1) || true
mounted --cache 8MiB --private
(cd seen && prove $alone >"$folder/seen-alone.txt" 2>&1) || true
unmounted
for run in plain seen plain-alone seen-alone; do
    sed -n '/^Test Summary Report/,$p' $run.txt | grep -E 'Failed: [1-9]|Failed test' >$run-failed.txt || true
    echo "pjdfstest, $run: $(grep -E '^Files=' $run.txt)"
done
diff plain-failed.txt seen-failed.txt
diff plain-alone-failed.txt seen-alone-failed.txt

cat >fsx.toml <<'TOML'
flen = 4194304
nomsyncafterwrite = true
[opsize]
max = 65536
min = 0
align = 1
[weights]
close_open = 1
read = 10
write = 10
mapread = 10
mapwrite = 10
invalidate = 1
truncate = 2
fsync = 0.5
fdatasync = 0.5
posix_fallocate = 2
punch_hole = 4
sendfile = 4
posix_fadvise = 1
copy_file_range = 4
TOML
for mode in write-back write-through; do
    for policy in lru ubm clock-pro; do
        mounted --cache 1MiB --mode $mode --policy $policy --dirty-age 300ms
        "$fsx" -q -f fsx.toml -N "$operations" -S 7 seen/file
        seen=$(sha256sum <seen/file)
        unmounted
        test "$seen" = "$(sha256sum <below/source/file)"
        echo "fsx, $mode, $policy: $operations operations"
        rm below/source/file
    done
done
