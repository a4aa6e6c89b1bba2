# Fails where no architecture of the list keeps its PTX: such kernels do not load on a newer GPU ("no
# kernel image"). "90" is machine code and PTX, "90-real" machine code alone. Run as a script,
# `cmake -DARCHITECTURES=LIST -P RequirePtx.cmake`, it checks LIST.
function(longhaul_require_ptx)
  set(with_ptx ${ARGN})
  list(FILTER with_ptx EXCLUDE REGEX "-real$|^native$|^OFF$")
  if(NOT with_ptx)
    message(FATAL_ERROR "CMAKE_CUDA_ARCHITECTURES '${ARGN}' has no PTX, without which the kernels do "
      "not load on a newer GPU; give one of them without '-real', such as 90")
  endif()
endfunction()
if(CMAKE_SCRIPT_MODE_FILE)
  longhaul_require_ptx(${ARCHITECTURES})
endif()
