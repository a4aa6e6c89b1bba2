# `longhaul import`, by files that the tests write; with the packages that `scripts/setup.sh test` puts
# beside torch's, where it could.
set(import_python ${PROJECT_SOURCE_DIR}/.venv-export/bin/python)
if(NOT EXISTS ${import_python})
  set(import_python ${TORCH_PYTHON})
endif()
foreach(part models weights ids datasets text transformers damage)
  add_test(NAME importing_${part}_test COMMAND ${TORCH_PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/importing/${part}_test.py
    $<TARGET_FILE:longhaul> ${import_python})
  set_tests_properties(importing_${part}_test PROPERTIES LABELS python TIMEOUT 600 SKIP_RETURN_CODE 77)
endforeach()
add_test(NAME importing_page_test COMMAND ${TORCH_PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/importing/page_test.py
  $<TARGET_FILE:longhaul> ${PROJECT_SOURCE_DIR} ${import_python})
set_tests_properties(importing_page_test PROPERTIES LABELS python TIMEOUT 600 SKIP_RETURN_CODE 77)
