# Furnishes the container of a service manager and becomes it: boot.sh BASE STAGE LOWER, as process 1 of namespaces of its own
# (mount, private; PID, UTS, IPC, cgroup). Nothing of the machine can be written from then on: the root is an overlay of LOWER,
# kept in memory; whatever is no part of the root's file system is not there; sysctls and /sys are read-only; there are no devices but
# those named here, and no right to make others.
set -eu
base=$1 stage=$2 lower=$3
mount -t tmpfs -o mode=755 tmpfs "$base"
root=$base/root
mkdir "$base/upper" "$base/work" "$root"
mount -t overlay -o "lowerdir=$lower,upperdir=$base/upper,workdir=$base/work" overlay "$root"

# No unit, generator or rule of the machine: all that can run is what the stage brings.
systemd=usr/lib/systemd
for directory in run tmp var/tmp var/log etc/systemd "$systemd/system" "$systemd/system-generators" \
    "$systemd/system-environment-generators" usr/lib/tmpfiles.d; do
    mkdir -p "$root/$directory"
    mount -t tmpfs -o mode=755 tmpfs "$root/$directory"
done
mkdir "$root/etc/systemd/system"
cp -R --preserve=mode "$stage/." "$root"

mount -t proc -o nosuid,noexec,nodev proc "$root/proc"
for path in sys sysrq-trigger; do
    [ -e "$root/proc/$path" ] || continue
    mount --bind "$root/proc/$path" "$root/proc/$path"
    mount -o remount,bind,ro "$root/proc/$path"
done
mount -t sysfs -o ro,nosuid,noexec,nodev sysfs "$root/sys"
mount -t cgroup2 -o nosuid,noexec,nodev cgroup2 "$root/sys/fs/cgroup"

mount -t tmpfs -o mode=755,nosuid tmpfs "$root/dev"
# Service managers take the second for a place to prepare credentials in.
mkdir "$root/dev/net" "$root/dev/shm" "$root/dev/pts"
while read -r name major minor; do
    mknod -m 666 "$root/dev/$name" c "$major" "$minor"
done <<END
null 1 3
zero 1 5
full 1 7
random 1 8
urandom 1 9
tty 5 0
net/tun 10 200
END
mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts"
ln -s pts/ptmx "$root/dev/ptmx"

mkdir "$root/machine"
cd "$root"
pivot_root . machine
cd /
umount -l /machine
rmdir /machine
# Service managers move mounts from one namespace to another; in a container that is for the container to allow.
mount --make-rshared /
exec setpriv --bounding-set=-sys_boot,-sys_time,-sys_module,-sys_rawio,-mknod,-syslog,-linux_immutable,-audit_control,-audit_read,-wake_alarm,-block_suspend \
    env container=lab systemd --log-target=console --show-status=no
