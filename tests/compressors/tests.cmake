foreach(name golden_test contract_test isa_test nmse_test error_feedback_test catalog_test)
  longhaul_test(compressors/${name}.cc LIBS longhaul::compressors fmt::fmt LABELS cpu)
endforeach()
