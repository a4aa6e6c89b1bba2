longhaul_test(netem/topology_test.cc LIBS longhaul::netem LABELS cpu)
longhaul_test(netem/topology_file_test.cc LIBS longhaul::netem LABELS cpu)
longhaul_test(netem/link_stage_test.cc LIBS longhaul::netem LABELS cpu)
longhaul_test(netem/frame_test.cc LIBS longhaul::netem LABELS cpu)
longhaul_test(netem/lab_test.cc LIBS longhaul::netem LABELS root)
longhaul_test(netem/spawn_test.cc SRCS netem/lab_harness.cc LIBS longhaul::netem LABELS root)
longhaul_test(netem/verify_test.cc SRCS netem/lab_harness.cc LIBS longhaul::netem LABELS root)
longhaul_test(netem/capabilities_test.cc SRCS netem/lab_harness.cc LIBS longhaul::netem LABELS root)
longhaul_test(netem/faults_test.cc SRCS netem/lab_harness.cc LIBS longhaul::netem LABELS root)
longhaul_test(netem/scale_test.cc SRCS netem/lab_harness.cc LIBS longhaul::netem LABELS root)
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
set_tests_properties(netem_capabilities_test netem_verify_test netem_acceptance_test netem_guest_acceptance PROPERTIES
  RUN_SERIAL ON)

longhaul_test(netem/path_change_test.cc LIBS longhaul::lab_control LABELS cpu)
longhaul_test(netem/lab_control_test.cc SRCS netem/lab_harness.cc LIBS longhaul::lab_control
  LABELS root)
longhaul_fuzzer(netem/topology_file_fuzz.cc LIBS longhaul::lab_control)
longhaul_fuzzer(netem/tap_packet_fuzz.cc LIBS longhaul::netem)
# Everything of the command that needs no torch, so that it is tested in every build.
add_executable(machine_command netem/machine_command.cc)
target_link_libraries(machine_command PRIVATE longhaul_flags longhaul::machine_commands)
target_precompile_headers(machine_command REUSE_FROM longhaul_headers_command)
target_include_directories(machine_command PRIVATE ${PROJECT_SOURCE_DIR})
longhaul_test(netem/net_command_test.cc SRCS netem/lab_harness.cc LIBS longhaul::netem LABELS root)
target_compile_definitions(netem_net_command_test PRIVATE
  LONGHAUL_MACHINE_COMMAND="$<TARGET_FILE:machine_command>")
add_dependencies(netem_net_command_test machine_command)
