# The package without a group: plain unittest, an entry for each area, with the package of the build tree.
function(longhaul_unittest area)
  add_test(NAME python_${area}_test
    COMMAND ${TORCH_PYTHON} -m unittest discover -s ${CMAKE_CURRENT_SOURCE_DIR}/python/${area})
  set(export_python ${PROJECT_SOURCE_DIR}/.venv-export/bin/python)
  if(NOT EXISTS ${export_python})
    set(export_python ${TORCH_PYTHON})
  endif()
  set_tests_properties(python_${area}_test PROPERTIES LABELS python TIMEOUT 600 ENVIRONMENT
    "PYTHONPATH=${PROJECT_BINARY_DIR}/python;PYTHONDONTWRITEBYTECODE=;PYTHONPYCACHEPREFIX=${PROJECT_BINARY_DIR}/pycache;OMP_NUM_THREADS=1;LONGHAUL_BINARY=$<TARGET_FILE:longhaul>;LONGHAUL_EXPORT_PYTHON=${export_python}")
endfunction()
longhaul_unittest(planning)
longhaul_unittest(record)
longhaul_unittest(report)
longhaul_unittest(analysis)
longhaul_unittest(pricing)
longhaul_unittest(api)

# What the reading commands print, held to what they printed before: an entry for each family of tests/approval.
function(longhaul_approval family)
  add_test(NAME approval_${family}
    COMMAND ${TORCH_PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/approval/approval.py $<TARGET_FILE:longhaul> ${PROJECT_SOURCE_DIR} ${family})
  set_tests_properties(approval_${family} PROPERTIES LABELS python TIMEOUT 900)
endfunction()
longhaul_approval(compare)
longhaul_approval(list)
longhaul_approval(measure)
longhaul_approval(plan)
longhaul_approval(report)
longhaul_approval(scale)
longhaul_approval(screen)
longhaul_approval(simulate)
