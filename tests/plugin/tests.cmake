foreach(name point_to_point_test collectives_test codec_policy_test)
  longhaul_test(plugin/${name}.cc SRCS plugin/group_fixture.cc
    LIBS longhaul::plugin_core longhaul::compressors LABELS cpu)
endforeach()
