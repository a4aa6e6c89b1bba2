foreach(name golden_test contract_test isa_test nmse_test error_feedback_test catalog_test survey_test selection_test
             policy_test reference_test state_test mirror_test saturate_test
             low_rank_test transform_test subspace_test bad_input_test)
  longhaul_test(compressors/${name}.cc LIBS longhaul::compressors fmt::fmt LABELS cpu TIMEOUT 600)
endforeach()

# Hostile bytes against every decoder: one program, whose name says which family it tries.
longhaul_fuzzer(compressors/decoder_fuzz.cc LIBS longhaul::compressors)
if(LONGHAUL_FUZZERS)
  foreach(family cast mean_std fp8 int_block ggml_block dynamic_map quantile minmax mix34 fp4 tah
                 aqsgd gact topk randk statistical sign qsgd powersgd diloco_x cocktail demo
                 subspace ef21 frame)
    add_custom_command(TARGET compressors_decoder_fuzz POST_BUILD
      COMMAND ${CMAKE_COMMAND} -E create_symlink compressors_decoder_fuzz
              compressors_decoder_${family}_fuzz
      WORKING_DIRECTORY ${PROJECT_BINARY_DIR}/fuzzers)
  endforeach()
endif()
