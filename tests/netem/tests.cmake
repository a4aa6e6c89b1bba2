longhaul_test(netem/topology_test.cc LIBS longhaul::netem LABELS cpu)
longhaul_test(netem/link_stage_test.cc LIBS longhaul::netem LABELS cpu)
longhaul_test(netem/frame_test.cc LIBS longhaul::netem LABELS cpu)
longhaul_test(netem/lab_test.cc LIBS longhaul::netem LABELS root)
longhaul_test(netem/spawn_test.cc SRCS netem/lab_harness.cc LIBS longhaul::netem LABELS root)
longhaul_test(netem/verify_test.cc SRCS netem/lab_harness.cc LIBS longhaul::netem LABELS root)
longhaul_test(netem/acceptance_test.cc SRCS netem/lab_harness.cc LIBS longhaul::netem LABELS root
  TIMEOUT 400)
