#!/usr/bin/env bash
# Builds a User Mode Linux kernel that can keep virtual time, with all that the lab's links need built
# in, from the distribution's own source, and prints its path. It is kept in ~/.cache/longhaul, outside
# of every tree; a kernel that another version of this script built is built anew.
# Usage: scripts/virtual_kernel.sh        (make test-virtual calls it)
# Environment: LONGHAUL_KERNEL_SOURCE=6.1 takes that linux-source package, not the newest.
set -euo pipefail
script=$(realpath "$0")
cache=${XDG_CACHE_HOME:-$HOME/.cache}/longhaul/virtual-kernel
fail() { echo "virtual kernel: $*" >&2; exit 1; }

stamp="$(sha256sum <"$script" | cut -c 1-16) ${LONGHAUL_KERNEL_SOURCE:-newest}"
if [ -x "$cache/linux" ] && [ "$(head -n 1 "$cache/built-by" 2>/dev/null)" = "$stamp" ]; then
  echo "$cache/linux"
  exit 0
fi

[ "$(uname -m)" = x86_64 ] || fail "User Mode Linux runs on x86-64 only, this is $(uname -m)"
missing=
for tool in flex bison bc xz make gcc dpkg-deb apt-get; do
  command -v "$tool" >/dev/null || missing+=" $tool"
done
[ -z "$missing" ] || fail "cannot be built without$missing: apt-get install make gcc flex bison bc xz-utils"
# The newest: netem takes a seed from 6.6 on. 6.12.117 was seen to build and to work; 6.1 does as well,
# without the seed; 6.12.27 did not link.
version=${LONGHAUL_KERNEL_SOURCE:-$(apt-cache search --names-only '^linux-source-[0-9.]+$' |
  sed 's/^linux-source-\([0-9.]*\) .*/\1/' | sort -V | tail -n 1)}
[ -n "$version" ] || fail "apt offers no linux-source package: apt-get update"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
echo "virtual kernel: building linux-source-$version; some minutes" >&2
apt-get download "linux-source-$version" >log 2>&1 || { cat log >&2; fail "apt cannot fetch linux-source-$version"; }
source_package=$(ls linux-source-*.deb)
mkdir source
dpkg-deb --fsys-tarfile "$source_package" | tar -xO --wildcards '*/linux-source-*.tar.*' | xz -dc |
  tar -x -C source --strip-components 1
cd source

# Ticks as Debian's own kernels have them: TCP's timers count in ticks, of which User Mode Linux has 100.
perl -0pi -e 's/(config HZ\n\tint\n\tdefault) 100/$1 250/' arch/um/Kconfig
built_in="UML_TIME_TRAVEL_SUPPORT NAMESPACES NET_NS PID_NS USER_NS UTS_NS VETH BRIDGE TUN NET_SCHED
  NET_SCH_HTB NET_SCH_NETEM NET_SCH_TBF NET_SCH_CODEL NET_SCH_FQ_CODEL NET_CLS_U32 TCP_CONG_ADVANCED
  TCP_CONG_CUBIC TCP_CONG_BBR"
left_out="EXT4_FS REISERFS_FS QUOTA AUTOFS_FS SOUND UML_NET DEBUG_KERNEL IKCONFIG MAGIC_SYSRQ
  CC_OPTIMIZE_FOR_SIZE DEBUG_INFO_DWARF_TOOLCHAIN_DEFAULT"
export ARCH=um
make defconfig >log 2>&1 || { tail -n 20 log >&2; fail "make defconfig failed"; }
options=()
for name in $built_in CC_OPTIMIZE_FOR_PERFORMANCE DEBUG_INFO_NONE; do options+=(--enable "$name"); done
for name in $left_out; do options+=(--disable "$name"); done
scripts/config "${options[@]}"
make olddefconfig >log 2>&1 || { tail -n 20 log >&2; fail "make olddefconfig failed"; }
for name in $built_in; do
  grep -qx "CONFIG_$name=y" .config || fail "linux-source-$version does not take CONFIG_$name=y"
done
grep -qx CONFIG_HZ=250 .config || fail "linux-source-$version does not take CONFIG_HZ=250"
make -j"$(nproc)" linux >log 2>&1 || { grep -E 'error|undefined' log | tail -n 20 >&2; fail "linux-source-$version does not build"; }

mkdir -p "$cache"
install -m 755 linux "$cache/linux.new"
mv "$cache/linux.new" "$cache/linux"  # who runs the old one keeps it
printf '%s\n%s\n' "$stamp" "$source_package" >"$cache/built-by"
echo "$cache/linux"
