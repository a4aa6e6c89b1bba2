# System libraries (Debian/Ubuntu packages, see scripts/packages.txt) and LibTorch (from a torch wheel).
find_package(Threads REQUIRED)
find_package(absl REQUIRED)
find_package(fmt REQUIRED)
find_package(GTest REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
pkg_check_modules(LIBNL REQUIRED IMPORTED_TARGET libnl-3.0 libnl-route-3.0)
find_library(SLIRP_LIBRARY slirp)  # without: no gateway for labs (its .pc file wants GLib's headers)
find_path(SLIRP_INCLUDE slirp/libslirp.h)
pkg_check_modules(SQLITE3 REQUIRED IMPORTED_TARGET sqlite3)
pkg_check_modules(ISAL REQUIRED IMPORTED_TARGET libisal)  # CRC32C
pkg_check_modules(TOMLPP REQUIRED IMPORTED_TARGET tomlplusplus)
pkg_check_modules(UCX REQUIRED IMPORTED_TARGET ucx)
pkg_check_modules(LIBTORRENT IMPORTED_TARGET libtorrent-rasterbar)  # without: no plugin/swarm
find_package(OpenSSL REQUIRED COMPONENTS Crypto)                    # SHA-256
if(LONGHAUL_BENCHMARKS)
  find_package(benchmark REQUIRED)
endif()
if(LONGHAUL_TORCH)
  include(TorchWheel)
endif()
