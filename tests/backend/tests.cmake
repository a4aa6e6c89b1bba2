longhaul_test(backend/work_test.cc backend/staging_test.cc backend/cuda_tensors_test.cc backend/conformance_test.cc
  backend/process_group_test.cc backend/process_group_store_test.cc backend/finisher_test.cc backend/rendezvous_test.cc backend/join_test.cc
  LIBS longhaul::plugin_backend longhaul::compressors LABELS cpu)

# Several processes each, some under torchrun, with the package of the build tree. What Python compiles is
# kept in the build tree: torch is installed without, and each of some twenty processes imports it.
function(longhaul_python_test name)
  add_test(NAME backend_python_${name}
    COMMAND ${TORCH_PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/backend/${name}.py)
  set_tests_properties(backend_python_${name} PROPERTIES LABELS python TIMEOUT 300
    SKIP_RETURN_CODE 77 ENVIRONMENT
    "PYTHONPATH=${PROJECT_BINARY_DIR}/python;PYTHONDONTWRITEBYTECODE=;PYTHONPYCACHEPREFIX=${PROJECT_BINARY_DIR}/pycache;OMP_NUM_THREADS=1")
endfunction()
longhaul_python_test(operations)
longhaul_python_test(conformance)
longhaul_python_test(ddp)
longhaul_python_test(sharded)
longhaul_python_test(pipelining)
longhaul_python_test(waiting_callbacks)
longhaul_python_test(shaped_failures)
longhaul_python_test(hang)
longhaul_python_test(looped_pipelines)
longhaul_python_test(stages)
longhaul_python_test(options)
longhaul_python_test(strangers)
longhaul_python_test(api)
longhaul_python_test(lab)
longhaul_python_test(interfaces)
longhaul_python_test(signals)
longhaul_python_test(decoded)
longhaul_python_test(compressed)
longhaul_python_test(descriptors)
longhaul_python_test(outage)
longhaul_python_test(differing)
longhaul_python_test(restart)
longhaul_python_test(rounds)
set_tests_properties(backend_python_rounds PROPERTIES TIMEOUT 600)
longhaul_python_test(cuda_tensors)
longhaul_python_test(installed_package)
set_property(TEST backend_python_installed_package APPEND PROPERTY ENVIRONMENT
  "LONGHAUL_BUILD_DIR=${PROJECT_BINARY_DIR}")

# Of PyTorch's own tests a selection; all: make test-torch.
add_test(NAME backend_python_torch_suite
  COMMAND ${TORCH_PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/backend/torch_suite.py short)
set_tests_properties(backend_python_torch_suite PROPERTIES LABELS python TIMEOUT 300 SKIP_RETURN_CODE 77
  ENVIRONMENT
  "PYTHONPATH=${PROJECT_BINARY_DIR}/python;PYTHONDONTWRITEBYTECODE=;PYTHONPYCACHEPREFIX=${PROJECT_BINARY_DIR}/pycache")

# The programs of docs/recipes.md, and docs/tutorial-torch.md.
foreach(name ddp fsdp pipeline llama_pipeline outer_loop checkpoint accelerate_ddp hf_trainer lightning_ddp page tutorial)
  add_test(NAME backend_recipe_${name}
    COMMAND ${TORCH_PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/backend/recipes.py ${name})
  set_tests_properties(backend_recipe_${name} PROPERTIES LABELS python TIMEOUT 300
    SKIP_RETURN_CODE 77 ENVIRONMENT
    "PYTHONPATH=${PROJECT_BINARY_DIR}/python;PYTHONDONTWRITEBYTECODE=;PYTHONPYCACHEPREFIX=${PROJECT_BINARY_DIR}/pycache")
endforeach()
