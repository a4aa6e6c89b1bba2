#!/usr/bin/env bash
# What is compiled for one instruction set must not leave its objects: a weak symbol that other
# objects have too may be taken from here by the linker, and a static initialiser runs everywhere;
# either ends a processor without the instructions. Usage: isa_objects.sh FOLDER (of objects, by room)
# A weak symbol that names the lanes of its instruction set is nobody else's.
cd "${1:?usage: isa_objects.sh FOLDER}" || exit 2
bad=0 seen=0
for object in $(find . -name '*.o' -path '*/kernels/*/*'); do
  seen=$((seen + 1))
  if nm -C "$object" | grep -E ' [WVu] ' | grep -vE 'Avx(2|512)Lanes'; then
    echo "^ weak symbols of $object that other objects may have too"
    bad=1
  fi
  if nm "$object" | grep -E '_GLOBAL__(sub_)?I'; then
    echo "^ $object has a static initialiser"
    bad=1
  fi
done
[ "$seen" -ge 6 ] || { echo "only $seen objects of instruction sets in $PWD"; exit 1; }
[ "$bad" = 0 ] && echo "$seen objects keep to themselves"
exit "$bad"
