#!/usr/bin/env bash
# A program takes a symbol of the first library in its list that has it, and libtorch.so of some wheels has half of
# std::filesystem: libstdc++ must stand before it. Usage: standard_library.sh PROGRAM...
for program in "${@:?usage: standard_library.sh PROGRAM...}"; do
  needed=$(readelf -d "$program" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | grep -E '^lib(stdc\+\+|torch)') ||
    { echo "$program needs neither libstdc++ nor libtorch"; exit 1; }
  case $needed in
    libstdc++*libtorch*) echo "$program: libstdc++ before libtorch" ;;
    *) echo "$program has symbols of std:: from torch where torch has them; its libraries in order:" "${needed//$'\n'/ }"; exit 1 ;;
  esac
done
