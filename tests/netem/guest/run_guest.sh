#!/usr/bin/env bash
# Runs a test program inside User Mode Linux, whose kernel has a real sch_netem.
# Usage: run_guest.sh [--virtual] PROGRAM [ARGUMENT...]
#   --virtual  in the kernel of scripts/virtual_kernel.sh, whose time is virtual: computing takes none,
#              and when nobody computes the clock goes on to the next timer. CLOCK=basic: computing takes
#              the time it takes here, for programs that poll, which the other clock would hang.
# GUEST_MEMORY: of the guest, 1G if it is not set.
# Exit status: the program's own; 77 (skipped) where the kernel or its modules are missing; 70 where
# the guest died without a verdict (its last words are printed).
set -u
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

skip() {
  echo "skipped: $1"
  exit 77
}
[ "$(uname -m)" = x86_64 ] || skip "User Mode Linux runs on x86-64 only"
kernel=linux.uml
words=(guest_clock=real)
if [ "${1:-}" = --virtual ]; then
  shift
  kernel=${XDG_CACHE_HOME:-$HOME/.cache}/longhaul/virtual-kernel/linux
  [ -x "$kernel" ] || skip "no kernel that keeps virtual time in $kernel; scripts/virtual_kernel.sh builds it"
  words=(guest_clock=virtual time-travel=inf-cpu time-travel-start=1700000000000000000)
  if [ "${CLOCK:-}" = basic ]; then
    words[1]=time-travel
    echo "clock of the guest: basic, computing takes the time it takes here" >&2
  fi
else
  command -v linux.uml >/dev/null || skip "no linux.uml; apt-get install user-mode-linux kmod"
  ls -d /usr/lib/uml/modules/* >/dev/null 2>&1 || skip "no guest modules in /usr/lib/uml/modules"
fi

results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT
# The command line of a kernel takes no blanks in a value: the program's words travel in a file.
printf '%s\0' "$@" >"$results/command"
mkdir "$results/uml"
# The guest has a /tmp, /run and /dev/shm of its own: from the host's it sees the checkout, the
# programs among the words, and the libraries they load.
folders_needed() {
  (cd "$here/../../.." && pwd -P)
  for word in "$@"; do
    [ -f "$word" ] && [ -x "$word" ] || continue
    dirname "$(realpath "$word")"
    ldd "$word" 2>/dev/null | grep -o '/[^ ]*' | xargs -r -n 1 dirname
  done
}
folders_needed "$@" | grep -E '^/(tmp|run|dev/shm)/' | sort -u >"$results/folders"

# The guest's memory is a file in TMPDIR: on a tmpfs it is as fast as memory.
[ -w /dev/shm ] && export TMPDIR=/dev/shm
# A guest that waits for a core measures the wait: ahead of other work where that is allowed.
first=
if [ "$kernel" = linux.uml ] && chrt -f 1 true 2>/dev/null; then first="chrt -f 1"; fi
# What it keeps of a task's state is too little for these processors (wide_state.c).
wide=
if grep -qm1 amx_tile /proc/cpuinfo; then
  wide=$results/wide_state.so
  ${CC:-cc} -O2 -shared -fPIC -o "$wide" "$here/wide_state.c" ||
    skip "this processor has AMX, for which linux.uml needs wide_state.c, and that does not compile"
fi
# A guest that hangs must not outlive whoever waits for it no longer.
$first setpriv --pdeathsig KILL env LD_PRELOAD="$wide" "$kernel" "${words[@]}" mem=${GUEST_MEMORY:-1G} umid="longhaul-$$" uml_dir="$results/uml" root=/dev/root rootfstype=hostfs \
  rootflags=/ ro init="$here/init.sh" con=null con0=fd:0,fd:1 ssl=null quiet \
  results="$results" </dev/null >"$results/console" 2>&1

[ -f "$results/output" ] && cat "$results/output"
if [ ! -f "$results/verdict" ]; then
  echo "the guest ended without a verdict; the end of its console:"
  tail -n 40 "$results/console"
  exit 70
fi
exit "$(cat "$results/verdict")"
