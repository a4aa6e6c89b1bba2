# LibTorch out of an installed torch wheel, CPU or CUDA build, 2.11 to 2.14.
#
# Plain imported targets rather than the wheel's own TorchConfig.cmake: that file insists on a CUDA
# toolkit when the wheel is a CUDA build, and on flags that we do not want. Only the C++ API, the
# dispatcher and c10d are needed, and they are in libtorch_cpu and libc10 of every build.
#
#   longhaul::torch         headers (as system headers), libtorch, libtorch_cpu, libc10
#   longhaul::torch_python  libtorch_python and the interpreter's headers, for the Python module
#
# Cache variable TORCH_PYTHON: the interpreter whose torch is used (default: .venv of the checkout).
set(TORCH_PYTHON "${PROJECT_SOURCE_DIR}/.venv/bin/python" CACHE FILEPATH
  "Python interpreter whose installed torch we build against")
execute_process(
  COMMAND ${TORCH_PYTHON} -c "import importlib.util as u, os, sysconfig
root = os.path.dirname(u.find_spec('torch').origin)
version = {}
exec(open(os.path.join(root, 'version.py')).read(), version)
print(root, version['__version__'], sysconfig.get_paths()['include'],
      sysconfig.get_config_var('EXT_SUFFIX'), sep=';')"
  OUTPUT_VARIABLE found ERROR_VARIABLE why RESULT_VARIABLE status OUTPUT_STRIP_TRAILING_WHITESPACE)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "no torch: tried '${TORCH_PYTHON}': ${why}\n"
    "Run 'make setup', or set TORCH_PYTHON to an interpreter that has torch 2.11 to 2.14, or "
    "build the torch-free part with -DLONGHAUL_TORCH=OFF.")
endif()
list(GET found 0 TORCH_ROOT)
list(GET found 1 TORCH_VERSION)
list(GET found 2 TORCH_PYTHON_INCLUDE)
list(GET found 3 TORCH_PYTHON_EXT_SUFFIX)
if(TORCH_VERSION VERSION_LESS 2.11 OR TORCH_VERSION VERSION_GREATER_EQUAL 2.15)
  message(FATAL_ERROR "torch ${TORCH_VERSION} in ${TORCH_ROOT}: supported are 2.11 to 2.14")
endif()
message(STATUS "torch ${TORCH_VERSION} in ${TORCH_ROOT}")

function(longhaul_torch_library target file)
  add_library(${target} SHARED IMPORTED)
  set_target_properties(${target} PROPERTIES IMPORTED_LOCATION ${TORCH_ROOT}/lib/${file})
  if(NOT EXISTS ${TORCH_ROOT}/lib/${file})
    message(FATAL_ERROR "${TORCH_ROOT}/lib/${file} is missing: not a usual torch wheel")
  endif()
endfunction()
set(TORCH_IS_CUDA 0)
if(EXISTS ${TORCH_ROOT}/lib/libtorch_cuda.so)
  set(TORCH_IS_CUDA 1)
endif()
longhaul_torch_library(torch_c10 libc10.so)
longhaul_torch_library(torch_cpu libtorch_cpu.so)
longhaul_torch_library(torch_py libtorch_python.so)

add_library(longhaul_torch INTERFACE)
add_library(longhaul::torch ALIAS longhaul_torch)
target_include_directories(longhaul_torch SYSTEM INTERFACE ${TORCH_ROOT}/include
  ${TORCH_ROOT}/include/torch/csrc/api/include)
target_compile_definitions(longhaul_torch INTERFACE USE_DISTRIBUTED USE_C10D_GLOO)
# libtorch.so of some wheels (2.11, CUDA) has a std::filesystem of its own among its public symbols, whose remove_all
# calls address 0 outside of it. The first library in a program's list has a symbol: the compiler's must be that.
target_link_options(longhaul_torch INTERFACE "LINKER:--push-state,--no-as-needed,-lstdc++,--pop-state")
# Nothing calls into libtorch itself: it brings libtorch_cuda, without which a program sees no GPU. Linkers drop
# such a library where --as-needed is the default, as in Ubuntu.
target_link_libraries(longhaul_torch INTERFACE
  "-Wl,--push-state,--no-as-needed \"${TORCH_ROOT}/lib/libtorch.so\" -Wl,--pop-state" torch_cpu torch_c10 Threads::Threads)

add_library(longhaul_torch_python INTERFACE)
add_library(longhaul::torch_python ALIAS longhaul_torch_python)
target_include_directories(longhaul_torch_python SYSTEM INTERFACE ${TORCH_PYTHON_INCLUDE})
target_link_libraries(longhaul_torch_python INTERFACE longhaul_torch torch_py)
