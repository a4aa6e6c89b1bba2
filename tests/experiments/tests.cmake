longhaul_test(experiments/spec/spec_test.cc LIBS longhaul::experiments_data LABELS cpu)
longhaul_test(experiments/spec/spec_bounds_test.cc experiments/spec/spec_defaults_test.cc
  LIBS longhaul::experiments_data LABELS cpu)
longhaul_test(experiments/spec/spec_lists_test.cc experiments/spec/idle_keys_test.cc LIBS longhaul::experiments_data LABELS cpu)
longhaul_test(experiments/spec/spec_paths_test.cc LIBS longhaul::experiments_data longhaul::netem LABELS cpu)
longhaul_test(experiments/spec/hostile_spec_test.cc LIBS longhaul::experiments_data LABELS cpu)
longhaul_test(experiments/spec/known_names_test.cc LIBS longhaul::experiments_data LABELS cpu)
longhaul_test(experiments/spec/campaign_test.cc LIBS longhaul::experiments_data LABELS cpu)
longhaul_test(experiments/spec/campaign_blocks_test.cc LIBS longhaul::experiments_data fmt::fmt LABELS cpu)
longhaul_test(experiments/spec/cuts_test.cc experiments/spec/boundary_policy_test.cc LIBS longhaul::experiments_data fmt::fmt LABELS cpu)
longhaul_test(experiments/record/whole_file_test.cc LIBS longhaul::whole_file LABELS cpu)
longhaul_test(experiments/record/record_test.cc experiments/record/record_upgrade_test.cc LIBS longhaul::experiments_data LABELS cpu)
longhaul_test(experiments/record/file_contents_test.cc LIBS longhaul::experiments_data LABELS cpu)
longhaul_test(experiments/record/record_claims_test.cc LIBS longhaul::experiments_data LABELS cpu)
longhaul_test(experiments/spec/spec_changes_test.cc LIBS longhaul::experiments_data LABELS cpu)
longhaul_test(experiments/spec/link_time_test.cc experiments/estimates/training_advice_test.cc
  LIBS longhaul::experiments_data LABELS cpu)
target_compile_definitions(experiments_spec_link_time_test PRIVATE
  LONGHAUL_TEST_LOSSY="${CMAKE_CURRENT_SOURCE_DIR}/experiments/virtual/lossy.toml")
longhaul_test(experiments/spec/fault_script_test.cc experiments/spec/group_timeline_test.cc
  LIBS longhaul::experiments_data longhaul::pp_schedule LABELS cpu)
longhaul_test(experiments/spec/compute_table_test.cc
  LIBS longhaul::experiments_data LABELS cpu)
if(LONGHAUL_TORCH)
  add_test(NAME experiments_outer_page_test COMMAND ${TORCH_PYTHON}
    ${CMAKE_CURRENT_SOURCE_DIR}/experiments/report/outer_page_test.py ${PROJECT_SOURCE_DIR}/docs/results/outer
    $<TARGET_FILE:longhaul> ${PROJECT_SOURCE_DIR}/experiments/specs/outer.toml)
  add_test(NAME experiments_findings_page_test COMMAND ${TORCH_PYTHON}
    ${CMAKE_CURRENT_SOURCE_DIR}/experiments/report/findings_page_test.py ${PROJECT_SOURCE_DIR})
  add_test(NAME experiments_pareto_page_test COMMAND ${TORCH_PYTHON}
    ${CMAKE_CURRENT_SOURCE_DIR}/experiments/report/pareto_page_test.py ${PROJECT_SOURCE_DIR}/docs/results/pareto)
  add_test(NAME experiments_async_page_test COMMAND ${TORCH_PYTHON}
    ${CMAKE_CURRENT_SOURCE_DIR}/experiments/report/async_page_test.py ${PROJECT_SOURCE_DIR}/docs/results/async)
  add_test(NAME experiments_result_pages_test COMMAND ${TORCH_PYTHON}
    ${CMAKE_CURRENT_SOURCE_DIR}/experiments/report/result_pages_test.py ${PROJECT_SOURCE_DIR})
  add_test(NAME experiments_published_losses_test COMMAND ${TORCH_PYTHON}
    ${CMAKE_CURRENT_SOURCE_DIR}/experiments/report/published_losses_test.py ${PROJECT_SOURCE_DIR}/docs/results)
  # Some sixty short plans.
  add_test(NAME experiments_published_page_test COMMAND ${TORCH_PYTHON}
    ${CMAKE_CURRENT_SOURCE_DIR}/experiments/report/published_page_test.py ${PROJECT_SOURCE_DIR}/docs/results/published
    $<TARGET_FILE:longhaul> ${PROJECT_SOURCE_DIR}/experiments/specs/published)
  set_tests_properties(experiments_outer_page_test experiments_findings_page_test experiments_pareto_page_test experiments_async_page_test
    experiments_result_pages_test experiments_published_losses_test PROPERTIES LABELS cpu)
  set_tests_properties(experiments_published_page_test PROPERTIES LABELS cpu TIMEOUT 1200)
endif()
if(LONGHAUL_TORCH)
  longhaul_test(experiments/train/byte_frequencies_test.cc LIBS longhaul::experiments_run LABELS cpu)
  longhaul_test(experiments/train/traffic_test.cc experiments/train/codec_choice_test.cc experiments/train/whole_tensors_test.cc
    experiments/train/coded_on_test.cc experiments/train/attention_kernel_test.cc experiments/train/seed_systems_test.cc
    LIBS longhaul::planning LABELS cpu)
  target_compile_definitions(experiments_train_traffic_test PRIVATE LONGHAUL_SPECS="${PROJECT_SOURCE_DIR}/experiments/specs"
    LONGHAUL_CODECS_PAGE="${PROJECT_SOURCE_DIR}/docs/codecs.md")
  longhaul_test(experiments/train/simulated_clock_test.cc experiments/train/simulated_kernel_test.cc
    LIBS longhaul::experiments_traffic fmt::fmt LABELS cpu)
  longhaul_test(experiments/train/elastic_clock_test.cc LIBS longhaul::experiments_traffic fmt::fmt LABELS cpu)
  # What the clock says of plans and of runs in simulated time; tests/python/planning has what Python makes of it.
  longhaul_test(experiments/planning/scale_closed_test.cc LIBS longhaul::planning fmt::fmt LABELS cpu)
  longhaul_test(experiments/planning/scale_test.cc experiments/planning/scale_clock_test.cc
    LIBS longhaul::planning fmt::fmt LABELS cpu)
  target_compile_definitions(experiments_planning_scale_test PRIVATE
    LONGHAUL_TEST_TIMING_GROUPS="${PROJECT_SOURCE_DIR}/docs/results/timing/timing-groups.csv")
  longhaul_test(experiments/planning/plan_test.cc experiments/planning/plan_placement_test.cc
    LIBS longhaul::planning longhaul::pp_schedule fmt::fmt LABELS cpu)
  target_compile_definitions(experiments_planning_plan_test PRIVATE LONGHAUL_TEST_ROOT="${PROJECT_SOURCE_DIR}")
  longhaul_test(experiments/train/simulated_trace_test.cc experiments/trace/trace_test.cc
    LIBS longhaul::experiments_traffic LABELS cpu)
  # Plays a run's program over the lab's links; bench/virtual_grid.py starts it in guests.
  add_executable(virtual_run experiments/virtual/played_run.cc experiments/virtual/virtual_run_main.cc)
  target_link_libraries(virtual_run PRIVATE longhaul_flags longhaul::experiments_traffic longhaul::netem
    longhaul::plugin_core fmt::fmt)
  add_custom_target(virtual_suites DEPENDS virtual_run netem_virtual_time_test longhaul_commands)
  target_compile_definitions(experiments_train_simulated_clock_test PRIVATE
    LONGHAUL_TEST_PAGE="${PROJECT_SOURCE_DIR}/docs/step-times.md"
    LONGHAUL_CLOCK_PAIR="${PROJECT_SOURCE_DIR}/experiments/specs/clock-pair.toml"
    LONGHAUL_TEST_LOSSY="${CMAKE_CURRENT_SOURCE_DIR}/experiments/virtual/lossy.toml"
    LONGHAUL_TWO_CONTINENTS="${PROJECT_SOURCE_DIR}/experiments/specs/two-continents.toml"
    LONGHAUL_TEST_TIMING="${PROJECT_SOURCE_DIR}/docs/results/timing/timing.csv"
    LONGHAUL_TEST_TIMING_GROUPS="${PROJECT_SOURCE_DIR}/docs/results/timing/timing-groups.csv")
else()
  longhaul_count_test(experiments/train/byte_frequencies_test.cc experiments/train/traffic_test.cc
    experiments/train/codec_choice_test.cc experiments/train/whole_tensors_test.cc
    experiments/train/coded_on_test.cc experiments/train/attention_kernel_test.cc experiments/train/seed_systems_test.cc experiments/train/simulated_clock_test.cc experiments/train/simulated_kernel_test.cc
    experiments/train/elastic_clock_test.cc
    experiments/planning/scale_closed_test.cc experiments/planning/scale_test.cc experiments/planning/scale_clock_test.cc
    experiments/planning/plan_test.cc experiments/planning/plan_placement_test.cc
    experiments/train/simulated_trace_test.cc experiments/trace/trace_test.cc)
endif()
# Hostile specs and campaigns: what reads them, without the record and the report beside it.
if(LONGHAUL_FUZZERS)
  set(specs spec_keys spec spec_paths spec_changes boundary_cuts boundary_policy compute_table fault_script files_table idle_keys round_plan
    plans_of_spec
    program_table
    block_arms campaign campaign_blocks campaign_plan timing_grid
    known_names gpu_profiles)
  list(TRANSFORM specs REPLACE "(.+)" "${PROJECT_SOURCE_DIR}/experiments/spec/\\1.cc")
  longhaul_library(fuzzed_specs HEADERS base JOIN 12 SRCS ${specs}
    ${PROJECT_SOURCE_DIR}/experiments/record/file_contents.cc
    PUBLIC absl::statusor fmt::fmt
    PRIVATE longhaul::compressors longhaul::pp_schedule longhaul::sha256 longhaul_fuzzed_links)
endif()
longhaul_fuzzer(experiments/spec/spec_fuzz.cc LIBS longhaul_fuzzed_specs)
longhaul_fuzzer(experiments/train/safetensors_fuzz.cc SRCS experiments/train/safetensors.cc
  LIBS longhaul::whole_file fmt::fmt absl::time absl::statusor absl::strings nlohmann_json::nlohmann_json)
