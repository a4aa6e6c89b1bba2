# What is said of wrong input, as tables (refusals.py says how they are read).
add_executable(refusal_readers refusals/readers.cc)
target_link_libraries(refusal_readers PRIVATE longhaul_flags longhaul::lab_control longhaul::pp_schedule
  longhaul::compressors longhaul::swarm_manifest fmt::fmt)
target_precompile_headers(refusal_readers REUSE_FROM longhaul_headers_quick)
target_compile_options(refusal_readers PRIVATE ${LONGHAUL_QUICK_OPTIONS})
foreach(table links other commands)
  add_custom_target(refusals_${table} DEPENDS refusal_readers longhaul_commands)
  add_test(NAME refusals_${table} COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/refusals/refusals.py
    ${CMAKE_CURRENT_SOURCE_DIR}/refusals/${table}.txt $<TARGET_FILE:refusal_readers> $<TARGET_FILE:longhaul>)
  set_tests_properties(refusals_${table} PROPERTIES LABELS cpu)
endforeach()
