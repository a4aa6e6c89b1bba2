# One executable: the torch headers are dear, and precompiled once for all four.
longhaul_test(backend/work_test.cc backend/staging_test.cc backend/conformance_test.cc
  backend/process_group_test.cc
  LIBS longhaul::plugin_backend longhaul::compressors LABELS cpu)
# ATen in a test is compiled for its answers, not its speed.
target_compile_options(backend_work_test PRIVATE -O1)
target_precompile_headers(backend_work_test PRIVATE
  ${PROJECT_SOURCE_DIR}/plugin/backend/torch_headers.h)

# Several processes each, under torchrun, with the package of the build tree.
function(longhaul_python_test name)
  add_test(NAME backend_python_${name}
    COMMAND ${TORCH_PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/backend/${name}.py)
  set_tests_properties(backend_python_${name} PROPERTIES LABELS python TIMEOUT 300
    SKIP_RETURN_CODE 77 ENVIRONMENT
    "PYTHONPATH=${PROJECT_BINARY_DIR}/python;PYTHONDONTWRITEBYTECODE=1")
endfunction()
longhaul_python_test(operations)
longhaul_python_test(ddp)
longhaul_python_test(pipelining)
longhaul_python_test(dead_peer)
