#!/bin/sh
# First process of the User Mode Linux guest: see run_guest.sh. Must never return.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
for folder in /run /tmp /dev/shm; do
  mkdir -p "$folder" 2>/dev/null
  mount -t tmpfs tmpfs "$folder"
done
mkdir /run/results
mount -t hostfs none /run/results -o "$results" || halt -f -p
# What the mounts above hide and the program needs; a folder inside one mounted before is there.
while IFS= read -r folder; do
  [ -d "$folder" ] && continue
  mkdir -p "$folder" && mount -t hostfs none "$folder" -o "ro,$folder" ||
    echo "guest: cannot show $folder" >>/run/results/output
done </run/results/folders

# The kernel that keeps virtual time has all of these built in.
modules=/usr/lib/uml/modules/$(uname -r)/kernel
if [ "$guest_clock" = real ]; then
  for module in net/sched/sch_netem net/sched/sch_htb net/sched/cls_u32 net/sched/sch_tbf \
    net/sched/sch_codel net/sched/sch_fq_codel net/ipv4/tcp_bbr lib/crc-ccitt net/ipv6/ipv6 \
    drivers/net/veth drivers/net/tun; do
    insmod "$modules/$module.ko" || echo "guest: no module $module"
  done
fi

# LONGHAUL_GUEST: in real time the one CPU is busy, so medians are judged instead of tails
# (docs/netem.md).
LONGHAUL_GUEST=$guest_clock xargs -0 -a /run/results/command env >>/run/results/output 2>&1
status=$?
# xargs turns any failure of its command into 123.
[ "$status" = 123 ] && status=1
echo "$status" >/run/results/verdict
sync
halt -f -p
