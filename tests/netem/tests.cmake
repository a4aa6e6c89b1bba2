longhaul_test(netem/topology_test.cc LIBS longhaul::netem LABELS cpu)
longhaul_test(netem/link_stage_test.cc LIBS longhaul::netem LABELS cpu)
longhaul_test(netem/frame_test.cc LIBS longhaul::netem LABELS cpu)
longhaul_test(netem/lab_test.cc LIBS longhaul::netem LABELS root)
longhaul_test(netem/spawn_test.cc SRCS netem/lab_harness.cc LIBS longhaul::netem LABELS root)
longhaul_test(netem/verify_test.cc SRCS netem/lab_harness.cc LIBS longhaul::netem LABELS root)
longhaul_test(netem/acceptance_test.cc SRCS netem/lab_harness.cc netem/traffic.cc
  netem/wake_control.cc
  LIBS longhaul::netem LABELS root TIMEOUT 900)

# The same suite on a real sch_netem, inside User Mode Linux; skipped with a reason without it. Here
# what does not hang on the one CPU of the guest being free at every moment; `make test-links` runs
# all of it.
add_test(NAME netem_guest_acceptance
  COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/netem/guest/run_guest.sh
    $<TARGET_FILE:netem_acceptance_test> --gtest_filter=*OnProfile*netem*:*LossIs*netem:*UdpOverload*netem:*ForeignSource*netem)
set_tests_properties(netem_guest_acceptance PROPERTIES LABELS guest TIMEOUT 900
  SKIP_RETURN_CODE 77)

# Measurements of time: nothing else of ours beside them.
set_tests_properties(netem_verify_test netem_acceptance_test netem_guest_acceptance PROPERTIES
  RUN_SERIAL ON)
