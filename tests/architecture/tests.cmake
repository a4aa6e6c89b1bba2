add_test(NAME architecture_arrows
  COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/architecture/arrows.sh ${PROJECT_SOURCE_DIR})
set_tests_properties(architecture_arrows PROPERTIES LABELS cpu)
