foreach(name golden_test contract_test isa_test nmse_test error_feedback_test catalog_test survey_test selection_test
             policy_test reference_test codec_threads_test allocation_test)
  longhaul_test(compressors/${name}.cc LIBS longhaul::compressors fmt::fmt LABELS cpu TIMEOUT 600)
endforeach()

# Hostile bytes against every decoder.
longhaul_fuzzer(compressors/decoder_fuzz.cc LIBS longhaul::compressors)
