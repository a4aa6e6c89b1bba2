longhaul_test_library(plugin_testing LIBS longhaul::plugin_core longhaul::compressors
  SRCS plugin/group_fixture.cc plugin/rigged_transport.cc)
foreach(name point_to_point_test collectives_test collective_sums_test collective_coded_test collective_coded_cases_test collective_roots_test missing_ranks_test mismatch_test codec_policy_test crossing_test crossings_test decoded_test order_test receiver_state_test faults_test
             flow_test deadlines_test integrity_test coder_test strangers_test)
  longhaul_test(plugin/${name}.cc LIBS plugin_testing LABELS cpu)
endforeach()
longhaul_test(plugin/collective_error_test.cc LIBS plugin_testing fmt::fmt LABELS cpu)
target_compile_definitions(plugin_collective_error_test PRIVATE LONGHAUL_DOCS_DIR="${PROJECT_SOURCE_DIR}/docs")
# Megabytes through every state or codec, also sanitized.
set_tests_properties(plugin_coder_test plugin_decoded_test PROPERTIES TIMEOUT 600)
# A device's part by the host's stand-in.
longhaul_test(plugin/device_coder_test.cc SRCS compressors/cuda_host_device.cc
  LIBS plugin_testing longhaul::plugin_device LABELS cpu)
# Alone in its process: it moves the limit of all.
longhaul_test(plugin/descriptors_test.cc LIBS plugin_testing LABELS cpu)
longhaul_test(plugin/packet_test.cc LIBS longhaul::plugin_core longhaul::compressors LABELS cpu)
longhaul_test(plugin/outbox_test.cc LIBS longhaul::plugin_core LABELS cpu)

# One rank as a process of its own, for tests that kill it.
add_executable(plugin_ucx_peer plugin/ucx_peer.cc)
target_include_directories(plugin_ucx_peer PRIVATE ${PROJECT_SOURCE_DIR})
target_link_libraries(plugin_ucx_peer PRIVATE longhaul_flags plugin_testing)
longhaul_test(plugin/ucx_test.cc SRCS plugin/child.cc LIBS plugin_testing LABELS cpu)
longhaul_test(plugin/ucx_namespace_test.cc SRCS plugin/child.cc LIBS longhaul::plugin_core
  LABELS root)
foreach(target plugin_ucx_test plugin_ucx_namespace_test)
  target_compile_definitions(${target} PRIVATE
    LONGHAUL_UCX_PEER="$<TARGET_FILE:plugin_ucx_peer>")
  add_dependencies(${target} plugin_ucx_peer)
endforeach()

# Hostile bytes against the parsers.
longhaul_fuzzer(plugin/packet_fuzz.cc SRCS plugin/core/address.cc plugin/core/collective_call.cc plugin/core/element_type.cc plugin/core/greeting.cc plugin/core/packet.cc
  LIBS longhaul::compressors absl::any_invocable absl::function_ref absl::time)

# Deadlines in real time: nothing else of ours beside them.
set_tests_properties(plugin_faults_test plugin_receiver_state_test plugin_flow_test plugin_ucx_test PROPERTIES RUN_SERIAL ON)

# The swarm: what needs no libtorrent, then members at 127.0.0.x.
longhaul_test(plugin/swarm/transfer_time_test.cc plugin/swarm/manifest_test.cc NAME plugin_swarm_manifest_test
  LIBS longhaul::swarm_manifest LABELS cpu)
longhaul_fuzzer(plugin/swarm/manifest_fuzz.cc LIBS longhaul::swarm_manifest)
if(TARGET longhaul_swarm)
  longhaul_test_library(swarm_testing LIBS longhaul::swarm SRCS plugin/swarm/swarm_fixture.cc)
  longhaul_test(plugin/swarm/swarm_test.cc LIBS swarm_testing LABELS cpu)
  longhaul_test(plugin/swarm/corrupt_peer_test.cc LIBS swarm_testing PkgConfig::LIBTORRENT LABELS cpu)
  longhaul_test(plugin/swarm/killed_fetch_test.cc LIBS swarm_testing nlohmann_json::nlohmann_json LABELS cpu)
  longhaul_test(plugin/swarm/shaped_swarm_test.cc
    LIBS netem_testing longhaul::swarm_manifest nlohmann_json::nlohmann_json LABELS root TIMEOUT 300)
  foreach(target plugin_swarm_killed_fetch_test plugin_swarm_shaped_swarm_test)
    target_compile_definitions(${target} PRIVATE LONGHAUL_WEIGHTS="$<TARGET_FILE:longhaul-weights>")
    add_dependencies(${target} longhaul-weights)
  endforeach()
else()
  longhaul_count_test(plugin/swarm/swarm_test.cc plugin/swarm/corrupt_peer_test.cc
    plugin/swarm/killed_fetch_test.cc plugin/swarm/shaped_swarm_test.cc)
endif()
