# c10d's virtual functions move with every minor release of torch (docs/torch-backend-reference.md). What the
# adapter overrides is compiled against the torch that was found, before anything else is built.
#   LONGHAUL_C10D_DEFINITIONS  compile definitions for the adapter's targets, and no others
function(longhaul_probe_c10d result file)
  if(NOT DEFINED ${result})
    message(STATUS "probing torch ${TORCH_VERSION}: ${file}")
    set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
    try_compile(${result} ${CMAKE_CURRENT_BINARY_DIR}/probes/${result}
      ${CMAKE_CURRENT_SOURCE_DIR}/probes/${file}
      CMAKE_FLAGS "-DINCLUDE_DIRECTORIES=${TORCH_ROOT}/include"
      COMPILE_DEFINITIONS -DUSE_DISTRIBUTED
      CXX_STANDARD 20 CXX_STANDARD_REQUIRED ON
      OUTPUT_VARIABLE output)
    set(${result}_OUTPUT "${output}" PARENT_SCOPE)
  endif()
endfunction()

# The answers belong to one torch: another TORCH_PYTHON asks again.
if(NOT LONGHAUL_C10D_PROBED STREQUAL "${TORCH_ROOT} ${TORCH_VERSION}")
  unset(LONGHAUL_C10D_OVERRIDES CACHE)
  unset(LONGHAUL_C10D_OPTIONS_CLONE CACHE)
endif()
longhaul_probe_c10d(LONGHAUL_C10D_OVERRIDES overrides.cc)
if(NOT LONGHAUL_C10D_OVERRIDES)
  unset(LONGHAUL_C10D_OVERRIDES CACHE)
  message(FATAL_ERROR "torch ${TORCH_VERSION} in ${TORCH_ROOT}: its c10d::Backend differs from that "
    "of torch 2.11 to 2.14, plugin/backend must be adapted:\n${LONGHAUL_C10D_OVERRIDES_OUTPUT}")
endif()
longhaul_probe_c10d(LONGHAUL_C10D_OPTIONS_CLONE options_clone.cc)
set(LONGHAUL_C10D_PROBED "${TORCH_ROOT} ${TORCH_VERSION}" CACHE INTERNAL "torch of the answers")

set(LONGHAUL_C10D_DEFINITIONS "")
if(LONGHAUL_C10D_OPTIONS_CLONE)
  list(APPEND LONGHAUL_C10D_DEFINITIONS LONGHAUL_C10D_OPTIONS_CLONE=1)
endif()
