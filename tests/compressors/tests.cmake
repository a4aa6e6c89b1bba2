longhaul_test(compressors/golden_test.cc LIBS longhaul::compressors LABELS cpu)
