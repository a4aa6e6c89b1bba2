longhaul_test(experiments/spec_test.cc LIBS longhaul::experiments_data LABELS cpu)
longhaul_test(experiments/known_names_test.cc LIBS longhaul::experiments_data LABELS cpu)
longhaul_test(experiments/campaign_test.cc LIBS longhaul::experiments_data LABELS cpu)
longhaul_test(experiments/record_test.cc LIBS longhaul::experiments_data LABELS cpu)
