foreach(name golden_test contract_test isa_test nmse_test error_feedback_test catalog_test survey_test)
  longhaul_test(compressors/${name}.cc LIBS longhaul::compressors fmt::fmt LABELS cpu TIMEOUT 600)
endforeach()

# Hostile bytes against every decoder: clang and -DLONGHAUL_FUZZERS=ON (tests/compressors/fuzz.sh).
if(LONGHAUL_FUZZERS)
  add_executable(compressors_decoder_fuzz compressors/decoder_fuzz.cc)
  target_link_libraries(compressors_decoder_fuzz PRIVATE longhaul_flags longhaul::compressors)
  target_compile_options(compressors_decoder_fuzz PRIVATE -fsanitize=fuzzer)
  target_link_options(compressors_decoder_fuzz PRIVATE -fsanitize=fuzzer)
  add_test(NAME compressors_decoder_fuzz
    COMMAND compressors_decoder_fuzz -max_total_time=20 -max_len=4096 -rss_limit_mb=1024)
  set_tests_properties(compressors_decoder_fuzz PROPERTIES LABELS cpu TIMEOUT 120)
endif()
