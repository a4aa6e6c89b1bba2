longhaul_unittest(analysis)
