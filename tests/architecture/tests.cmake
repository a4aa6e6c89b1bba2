add_test(NAME architecture_arrows
  COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/architecture/arrows.sh ${PROJECT_SOURCE_DIR})
set_tests_properties(architecture_arrows PROPERTIES LABELS cpu)
# Nobody below the top reads a clock by itself.
add_test(NAME architecture_clocks
  COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/architecture/clocks.sh ${PROJECT_SOURCE_DIR})
set_tests_properties(architecture_clocks PROPERTIES LABELS cpu)
# The pages' links lead somewhere.
add_test(NAME architecture_links
  COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/architecture/links.py ${PROJECT_SOURCE_DIR})
set_tests_properties(architecture_links PROPERTIES LABELS cpu)
# Pages follow docs/contributing/writing.md.
add_test(NAME architecture_prose
  COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/architecture/prose.py ${PROJECT_SOURCE_DIR})
set_tests_properties(architecture_prose PROPERTIES LABELS cpu)
# What is shown to be installed is what is meant.
add_test(NAME architecture_pip_names
  COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/architecture/pip_names.py ${PROJECT_SOURCE_DIR})
set_tests_properties(architecture_pip_names PROPERTIES LABELS cpu)
# The catalogue of faults fits the code (tests/mutations/README.md).
add_test(NAME architecture_mutations COMMAND ${PROJECT_SOURCE_DIR}/scripts/mutations.py --check)
set_tests_properties(architecture_mutations PROPERTIES LABELS cpu)
# The faults that make test-drawn-faults draws.
add_test(NAME architecture_faults COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/scripts/faults_test.py)
set_tests_properties(architecture_faults PROPERTIES LABELS cpu)
# A build for one GPU also runs on newer ones.
add_test(NAME architecture_ptx
  COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/architecture/ptx.sh ${PROJECT_SOURCE_DIR})
set_tests_properties(architecture_ptx PROPERTIES LABELS cpu)
# What make test may try again.
add_test(NAME architecture_run_tests COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/scripts/run_tests_test.py)
set_tests_properties(architecture_run_tests PROPERTIES LABELS cpu)
# What links torch takes std:: of the compiler's library.
if(LONGHAUL_TORCH)
  add_test(NAME architecture_standard_library
    COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/architecture/standard_library.sh $<TARGET_FILE:longhaul-engine>
      $<TARGET_FILE:longhaul_python>)
  set_tests_properties(architecture_standard_library PROPERTIES LABELS cpu)
endif()
# Sanitizers initialise every object.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64" AND NOT LONGHAUL_SANITIZER)
  add_test(NAME architecture_isa_objects
    COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/architecture/isa_objects.sh
      ${PROJECT_BINARY_DIR}/compressors/CMakeFiles/longhaul_compressors.dir)
  set_tests_properties(architecture_isa_objects PROPERTIES LABELS cpu)
endif()
# What runs on a GPU when there is one, rehearsed.
if(LONGHAUL_TORCH)
  add_test(NAME bench_gpu_price_test COMMAND ${TORCH_PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/scripts/gpu_price_test.py
    ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/.venv-export/bin/python)
  set_tests_properties(bench_gpu_price_test PROPERTIES LABELS cpu SKIP_RETURN_CODE 77 TIMEOUT 600 COST 100)
endif()
