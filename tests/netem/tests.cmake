longhaul_test_library(netem_testing LIBS longhaul::netem
  SRCS netem/judgement.cc netem/lab_harness.cc netem/shell_command.cc netem/traffic.cc netem/wake_control.cc)

longhaul_test(netem/topology_test.cc LIBS longhaul::netem LABELS cpu)
longhaul_test(netem/topology_file_test.cc LIBS longhaul::netem LABELS cpu)
longhaul_test(netem/topology_bounds_test.cc LIBS longhaul::netem LABELS cpu)
longhaul_test(netem/topology_matrix_test.cc LIBS longhaul::netem LABELS cpu)
longhaul_test(netem/link_stage_test.cc LIBS longhaul::netem LABELS cpu)
longhaul_test(netem/frame_test.cc LIBS longhaul::netem LABELS cpu)
longhaul_test(netem/tap_network_test.cc LIBS longhaul::netem LABELS cpu)
longhaul_test(netem/codel_test.cc LIBS longhaul::netem LABELS cpu)
longhaul_test(netem/rate_trace_test.cc LIBS longhaul::netem LABELS cpu)
longhaul_test(netem/wake_lead_test.cc LIBS longhaul::netem LABELS cpu)
longhaul_test(netem/wake_timers_test.cc LIBS longhaul::netem LABELS cpu)
longhaul_test(netem/vector_state_test.cc LABELS cpu)
longhaul_test(netem/lab_test.cc LIBS longhaul::netem LABELS root)
longhaul_test(netem/spawn_test.cc LIBS netem_testing LABELS root)
longhaul_test(netem/verify_test.cc LIBS netem_testing
  LABELS root physical)
longhaul_test(netem/capabilities_test.cc LIBS netem_testing LABELS root)
longhaul_test(netem/faults_test.cc LIBS netem_testing LABELS root)
longhaul_test(netem/scale_test.cc LIBS netem_testing LABELS root)
longhaul_test(netem/acceptance_test.cc LIBS netem_testing LABELS root physical TIMEOUT 900)

longhaul_test(netem/ipv6_test.cc LIBS netem_testing LABELS root physical TIMEOUT 300)
longhaul_test(netem/aqm_test.cc LIBS netem_testing LABELS root physical TIMEOUT 600)
longhaul_test(netem/burst_test.cc LIBS netem_testing LABELS root physical TIMEOUT 300)
longhaul_test(netem/site_test.cc LIBS netem_testing LABELS root physical TIMEOUT 300)
longhaul_test(netem/virtual_time_test.cc LIBS netem_testing LABELS root)

# What `make test-links` runs.
add_custom_target(link_suites DEPENDS netem_acceptance_test netem_burst_test netem_aqm_test netem_ipv6_test netem_site_test
  netem_scale_test netem_faults_test)

# The same suites on a real sch_netem, inside User Mode Linux; skipped with a reason without it. Here
# what does not hang on the one CPU of the guest being free at every moment (64 sites take it 6 to
# 12 s, as the host has time for it); `make test-links` runs all of it.
# Labels beside `guest` come last.
function(longhaul_guest_test suite filter)
  add_test(NAME netem_guest_${suite}
    COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/netem/guest/run_guest.sh
      $<TARGET_FILE:netem_${suite}_test> --gtest_filter=${filter})
  set_tests_properties(netem_guest_${suite} PROPERTIES LABELS "guest;${ARGN}" TIMEOUT 900
    SKIP_RETURN_CODE 77 RUN_SERIAL ON)
endfunction()
longhaul_guest_test(acceptance
  *OnProfile*netem*:*.LossIs*netem:*UdpOverload*netem:*ForeignSource*netem physical)
longhaul_guest_test(burst *netem* physical)
longhaul_guest_test(ipv6 *netem* physical)
longhaul_guest_test(site *SharesTheUplink*netem:*EachPath*netem:*Deleted*netem physical)
longhaul_guest_test(aqm Links/Managed*netem:ManagedPath.TheKernel* physical)
longhaul_guest_test(faults *netem)
longhaul_guest_test(vector_state *)
# In virtual time, so other work on the machine changes nothing of what is measured.
add_test(NAME netem_guest_virtual_time COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/netem/guest/run_guest.sh --virtual
  $<TARGET_FILE:netem_virtual_time_test>)
set_tests_properties(netem_guest_virtual_time PROPERTIES LABELS guest TIMEOUT 300 SKIP_RETURN_CODE 77)

longhaul_test(netem/path_change_test.cc LIBS longhaul::lab_control LABELS cpu)
longhaul_test(netem/verify_bounds_test.cc LIBS longhaul::lab_control LABELS cpu)
longhaul_test(netem/gateway_test.cc LIBS longhaul::lab_control LABELS cpu)
longhaul_test(netem/lab_store_test.cc LIBS longhaul::lab_control LABELS cpu)
longhaul_test(netem/lab_changes_test.cc LIBS longhaul::lab_control LABELS cpu)
longhaul_test(netem/lab_control_test.cc netem/lab_control_changes_test.cc LIBS netem_testing longhaul::lab_control
  LABELS root)
# Hostile topology files and packets: what reads them, without the system calls around it.
if(LONGHAUL_FUZZERS)
  set(links topology/access_lines topology/path_figure_table nodes/addressing emulators/frame topology/figure_text topology/text_file topology/region_tables lab_control/path_change emulators/link_stage topology/profiles
    topology/queue_limits topology/pair_matrix emulators/tap_network topology/topology topology/topology_file
    topology/toml_tree topology/table_reader topology/toml_paths
    topology/topology_named topology/rate_trace queues/codel queues/fq_codel_queue queues/queued_stage)
  list(TRANSFORM links REPLACE "(.+)" "${PROJECT_SOURCE_DIR}/netem/\\1.cc")
  longhaul_library(fuzzed_links HEADERS base JOIN 6 SRCS ${links}
    PUBLIC absl::statusor absl::time fmt::fmt)
endif()
longhaul_fuzzer(netem/topology_file_fuzz.cc LIBS longhaul_fuzzed_links)
longhaul_fuzzer(netem/tap_packet_fuzz.cc LIBS longhaul_fuzzed_links)
# The commands that need no torch, so that every build tests them: `longhaul net`, which is there
# without torch too, and `longhaul doctor` as a program of its own.
add_executable(doctor_command netem/doctor_command_main.cc)
target_include_directories(doctor_command PRIVATE ${PROJECT_SOURCE_DIR})
target_compile_options(doctor_command PRIVATE -O1)
target_precompile_headers(doctor_command REUSE_FROM longhaul_headers_quick)
foreach(test net_command net_gateway net_programs doctor_command)
  longhaul_test(netem/${test}_test.cc LIBS netem_testing LABELS root)
  string(REGEX REPLACE "net_.*" "longhaul" program ${test})
  target_compile_definitions(netem_${test}_test PRIVATE
    LONGHAUL_COMMAND="$<TARGET_FILE:${program}>")
  add_dependencies(netem_${test}_test ${program})
endforeach()
target_link_libraries(netem_net_gateway_test PRIVATE longhaul::lab_control)
target_compile_definitions(netem_net_programs_test PRIVATE LONGHAUL_TEST_PYTHON="${TORCH_PYTHON}")
target_link_libraries(doctor_command PRIVATE longhaul_flags longhaul::doctor_command fmt::fmt)

# LeakSanitizer waits for ever in a process whose children live in another PID namespace, as those of
# `net exec` do.
set_tests_properties(netem_net_command_test netem_net_gateway_test netem_net_programs_test PROPERTIES ENVIRONMENT ASAN_OPTIONS=detect_leaks=0)

# Measurements of time: nothing else of ours beside them.
set_tests_properties(netem_capabilities_test netem_verify_test netem_acceptance_test netem_burst_test netem_aqm_test
  netem_ipv6_test netem_site_test netem_scale_test netem_doctor_command_test PROPERTIES RUN_SERIAL ON)
