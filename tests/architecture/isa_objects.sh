#!/usr/bin/env bash
# What is compiled for one instruction set must not leave its objects: a weak function that other
# objects have too may be taken from here by the linker, and a static initialiser runs everywhere;
# either ends a processor without the instructions. Usage: isa_objects.sh FOLDER (of objects, by room)
# A weak function that names the namespace of its instruction set is nobody else's; weak data has no
# instructions. Holds without optimisation too: what these files share is inlined by force.
sources=$(cd "$(dirname "$0")/../../compressors" && pwd)
cd "${1:?usage: isa_objects.sh FOLDER}" || exit 2
set -o pipefail
bad=0 seen=0
for object in $(find . -name '*.o' -path '*/kernels/*/*' ! -path '*/scalar/*'); do
  [ -e "$sources/${object%.o}" ] || continue  # of an earlier build
  seen=$((seen + 1))
  if nm -C "$object" | grep ' W ' | grep -vE 'longhaul::avx(2|512)::' | cut -c1-200; then
    echo "^ weak functions of $object that other objects may have too"
    bad=1
  fi
  if nm "$object" | grep -E '_GLOBAL__(sub_)?I'; then
    echo "^ $object has a static initialiser"
    bad=1
  fi
done
[ "$seen" = 2 ] || { echo "$seen objects of instruction sets in $PWD, not one each for 2"; exit 1; }
[ "$bad" = 0 ] && echo "$seen objects keep to themselves"
exit "$bad"
