longhaul_test(plugin/point_to_point_test.cc SRCS plugin/group_fixture.cc
  LIBS longhaul::plugin_core longhaul::compressors LABELS cpu)
