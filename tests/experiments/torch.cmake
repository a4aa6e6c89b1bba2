# The command as a user meets it: these start build/longhaul.
# A text to train on that nobody edits while a test runs.
set(small_text "")
foreach(page experiments models netem net-lab plugin simulator)
  file(READ ${PROJECT_SOURCE_DIR}/docs/${page}.md words)
  string(APPEND small_text "${words}")
endforeach()
file(WRITE ${CMAKE_BINARY_DIR}/tests/small_text.txt "${small_text}")
longhaul_test_library(command_testing SRCS experiments/command/command_line.cc)
target_compile_definitions(command_testing PUBLIC LONGHAUL_BINARY="$<TARGET_FILE:longhaul>"
  LONGHAUL_TINY_SPEC="${CMAKE_CURRENT_SOURCE_DIR}/experiments/command/tiny.toml"
  LONGHAUL_SPECS="${PROJECT_SOURCE_DIR}/experiments/specs"
  LONGHAUL_SMALL_TEXT="${CMAKE_BINARY_DIR}/tests/small_text.txt"
  LONGHAUL_RESULTS="${PROJECT_SOURCE_DIR}/docs/results")
add_dependencies(command_testing longhaul_commands)
foreach(name bad_input faults shaped)
  longhaul_test(experiments/command/${name}_test.cc LIBS command_testing longhaul::experiments_data LABELS cpu TIMEOUT 300)
endforeach()
add_test(NAME experiments_docs_commands_test COMMAND ${TORCH_PYTHON}
  ${CMAKE_CURRENT_SOURCE_DIR}/experiments/command/docs_commands_test.py $<TARGET_FILE:longhaul> ${PROJECT_SOURCE_DIR})
set_tests_properties(experiments_docs_commands_test PROPERTIES LABELS cpu TIMEOUT 900)
add_test(NAME experiments_command_line_page_test COMMAND ${TORCH_PYTHON}
  ${CMAKE_CURRENT_SOURCE_DIR}/experiments/command/command_line_page_test.py $<TARGET_FILE:longhaul> ${PROJECT_SOURCE_DIR})
set_tests_properties(experiments_command_line_page_test PROPERTIES LABELS cpu TIMEOUT 300)
longhaul_test(experiments/command/elastic_test.cc LIBS command_testing longhaul::experiments_data LABELS cpu TIMEOUT 300)
longhaul_test(experiments/command/elastic_links_test.cc LIBS command_testing longhaul::experiments_data LABELS root TIMEOUT 900)
longhaul_test(experiments/command/elastic_checkpoints_test.cc LIBS command_testing longhaul::experiments_data LABELS root TIMEOUT 900)
longhaul_test(experiments/command/output_test.cc
  LIBS command_testing longhaul::experiments_data nlohmann_json::nlohmann_json LABELS cpu TIMEOUT 300)
add_dependencies(experiments_command_output_test longhaul-demo)
longhaul_test(experiments/command/scale_command_test.cc LIBS command_testing nlohmann_json::nlohmann_json LABELS cpu)
longhaul_test(experiments/command/plan_command_test.cc LIBS command_testing longhaul::experiments_data fmt::fmt nlohmann_json::nlohmann_json LABELS cpu)
longhaul_test(experiments/command/simulated_test.cc experiments/command/run_trace_test.cc
  LIBS command_testing longhaul::experiments_data nlohmann_json::nlohmann_json LABELS cpu)
target_compile_definitions(experiments_command_simulated_test PRIVATE LONGHAUL_TEST_PYTHON="${TORCH_PYTHON}"
  LONGHAUL_TRACE_RULES="${CMAKE_CURRENT_SOURCE_DIR}/experiments/trace/trace_rules.py")
longhaul_test(experiments/command/schedule_command_test.cc LIBS command_testing nlohmann_json::nlohmann_json absl::strings LABELS cpu)
target_compile_definitions(experiments_command_schedule_command_test PRIVATE
  LONGHAUL_TEST_GRID="${PROJECT_SOURCE_DIR}/docs/results/schedules/grid.csv"
  LONGHAUL_TEST_GRID_SPEC="${PROJECT_SOURCE_DIR}/experiments/specs/schedules.toml")
longhaul_test(experiments/command/link_faults_test.cc LIBS command_testing longhaul::netem LABELS root)
longhaul_test(experiments/command/launch_test.cc LIBS command_testing longhaul::launch LABELS root TIMEOUT 300)
longhaul_test(experiments/command/program_campaign_test.cc LIBS command_testing longhaul::launch LABELS root TIMEOUT 300)
target_compile_definitions(experiments_command_launch_test PRIVATE LONGHAUL_PYTHON="${TORCH_PYTHON}"
  LONGHAUL_PYTHON_PACKAGE="${PROJECT_BINARY_DIR}/python")
add_dependencies(experiments_command_launch_test longhaul_python)
longhaul_test(experiments/command/stall_faults_test.cc LIBS command_testing LABELS root)
longhaul_test(experiments/run/stall_tracker_test.cc experiments/train/stall_detector_test.cc LIBS longhaul::experiments_run LABELS cpu)
if(TARGET longhaul_swarm)
  longhaul_test(experiments/elastic/state_swarm_test.cc LIBS longhaul::experiments_train longhaul::experiments_run
    longhaul::pp_group LABELS cpu)
  longhaul_test(experiments/elastic/state_offers_test.cc LIBS longhaul::experiments_train longhaul::experiments_run LABELS cpu)
  longhaul_test(experiments/command/swarm_joiner_test.cc LIBS command_testing longhaul::experiments_data LABELS root)
  set(swarm_suites experiments_command_swarm_joiner_test)
else()
  longhaul_count_test(experiments/elastic/state_swarm_test.cc experiments/elastic/state_offers_test.cc experiments/command/swarm_joiner_test.cc)
endif()
longhaul_test(experiments/train/capture_test.cc LIBS command_testing longhaul::experiments_run nlohmann_json::nlohmann_json LABELS cpu)
longhaul_test(experiments/train/error_windows_test.cc LIBS longhaul::experiments_run LABELS cpu)
longhaul_test(experiments/train/boundary_state_test.cc
  LIBS longhaul::experiments_train longhaul::experiments_run LABELS cpu)
longhaul_test(experiments/run/processes_test.cc experiments/run/wire_bytes_test.cc experiments/run/run_view_test.cc experiments/run/killed_by_test.cc
  experiments/run/first_cause_test.cc
  LIBS command_testing longhaul::experiments_run LABELS cpu)
longhaul_test(experiments/run/run_recorder_test.cc experiments/run/fault_ledger_test.cc experiments/elastic/group_lives_test.cc
  experiments/run/crossing_ledger_test.cc experiments/run/ending_test.cc experiments/run/link_evidence_test.cc LIBS command_testing longhaul::experiments_run LABELS cpu)
longhaul_test(experiments/run/gpu_spread_test.cc experiments/run/rate_rule_test.cc LIBS longhaul::experiments_run LABELS cpu)
longhaul_test(experiments/run/link_fault_script_test.cc LIBS longhaul::experiments_run LABELS cpu)
longhaul_test_library(system_testing SRCS experiments/command/system_runs.cc LIBS command_testing longhaul::experiments_run)
longhaul_test(experiments/command/outer_specs_test.cc LIBS system_testing LABELS cpu TIMEOUT 300)
longhaul_test(experiments/command/boundary_specs_test.cc LIBS system_testing LABELS cpu TIMEOUT 300)
# Their long form: scripts/test-systems.sh.
add_custom_target(system_suites DEPENDS experiments_command_outer_specs_test experiments_command_boundary_specs_test)
target_compile_definitions(experiments_command_boundary_specs_test PRIVATE LONGHAUL_LICENSE="${PROJECT_SOURCE_DIR}/LICENSE")
longhaul_test(experiments/run/run_place_test.cc LIBS command_testing longhaul::experiments_run LABELS cpu)
longhaul_test(experiments/train/spec_files_test.cc LIBS command_testing longhaul::experiments_run LABELS cpu)
longhaul_test(experiments/command/named_files_test.cc LIBS command_testing longhaul::experiments_data LABELS cpu TIMEOUT 300)
longhaul_test(experiments/elastic/round_store_test.cc experiments/elastic/own_faults_test.cc LIBS longhaul::experiments_train longhaul::experiments_run LABELS cpu)
longhaul_test(experiments/train/temporary_folder_test.cc LIBS longhaul::experiments_train longhaul::experiments_run LABELS cpu)
longhaul_test(experiments/run/worker_pool_test.cc LIBS command_testing longhaul::experiments_run LABELS cpu)
longhaul_test(experiments/command/branches_test.cc LIBS command_testing longhaul::experiments_data fmt::fmt LABELS cpu TIMEOUT 300)
longhaul_test(experiments/command/campaign_array_test.cc LIBS command_testing longhaul::experiments_data LABELS cpu TIMEOUT 300)
longhaul_test(experiments/command/resume_test.cc LIBS command_testing longhaul::experiments_data LABELS cpu TIMEOUT 300)
longhaul_test(experiments/run/memory_terms_test.cc LIBS command_testing longhaul::experiments_run LABELS cpu)
longhaul_test(experiments/command/memory_plan_test.cc LIBS command_testing longhaul::experiments_run LABELS cpu TIMEOUT 1500)
longhaul_test(experiments/command/from_losses_test.cc LIBS command_testing longhaul::experiments_data LABELS cpu)
longhaul_test(experiments/run/preflight_test.cc experiments/run/gpu_memory_test.cc
  LIBS command_testing longhaul::experiments_run LABELS cpu)
# Lost workers, groups and links: scripts/test-faults.sh runs what this target builds, from the list beside it.
set(fault_suites experiments_command_elastic_test experiments_command_elastic_links_test experiments_command_elastic_checkpoints_test experiments_command_faults_test
  experiments_command_link_faults_test experiments_command_stall_faults_test ${swarm_suites})
add_custom_target(fault_suites DEPENDS ${fault_suites})
list(JOIN fault_suites "\n" fault_suites_lines)
file(CONFIGURE OUTPUT "${CMAKE_BINARY_DIR}/tests/fault_suites.txt" CONTENT "${fault_suites_lines}\n")
# Two labs at a time, for the cores' sake: a row waits for its own. What they assert hangs on no link's figures
# (out_of_bounds=flag), and they know their processes from others', so anything may run beside them.
set_tests_properties(experiments_command_shaped_test experiments_command_faults_test experiments_command_elastic_links_test PROPERTIES
  LABELS root RESOURCE_LOCK lab_of_a_run COST 500 TIMEOUT 400)
set_tests_properties(experiments_command_link_faults_test experiments_command_stall_faults_test experiments_command_elastic_checkpoints_test
  ${swarm_suites} PROPERTIES LABELS root RESOURCE_LOCK second_lab_of_a_run COST 500 TIMEOUT 400)

# Its rows with workers want a lab, the others do not.
set_tests_properties(experiments_command_memory_plan_test PROPERTIES ENVIRONMENT "GTEST_FILTER=-Workers/*")
add_test(NAME experiments_memory_plan_workers_test COMMAND experiments_command_memory_plan_test --gtest_filter=Workers/*)
set_tests_properties(experiments_memory_plan_workers_test PROPERTIES LABELS root TIMEOUT 300 SKIP_RETURN_CODE 77
  RESOURCE_LOCK lab_of_a_run)

# The examples for Slurm, on a real one in namespaces; skipped where there is none.
foreach(name array workers)
  add_test(NAME experiments_slurm_${name}_test COMMAND
    ${PROJECT_SOURCE_DIR}/tests/slurm/${name}_test.sh $<TARGET_FILE:longhaul> ${PROJECT_SOURCE_DIR})
  set_tests_properties(experiments_slurm_${name}_test PROPERTIES LABELS cpu TIMEOUT 600 SKIP_RETURN_CODE 77)
endforeach()

# Namespaces as hosts under torchrun, kills, and the record made of what the workers told: one torchrun for all ranks,
# and one for each group of a run that goes on without those that are lost.
foreach(name torchrun groups)
  add_test(NAME experiments_${name}_workers_test COMMAND ${PROJECT_SOURCE_DIR}/tests/workers/${name}_test.sh
    $<TARGET_FILE:longhaul> ${TORCH_PYTHON} ${PROJECT_SOURCE_DIR})
  set_tests_properties(experiments_${name}_workers_test PROPERTIES LABELS root TIMEOUT 300 SKIP_RETURN_CODE 77
    RESOURCE_LOCK lab_of_a_run)
endforeach()

# Its kills strike in transfers; beside heavy neighbours they were seen to strike at another moment, with other bits.
set_tests_properties(experiments_groups_workers_test PROPERTIES RUN_SERIAL ON)

# Two mount namespaces as hosts whose files differ.
add_test(NAME experiments_files_workers_test COMMAND ${PROJECT_SOURCE_DIR}/tests/workers/files_test.sh
  $<TARGET_FILE:longhaul> ${PROJECT_SOURCE_DIR})
set_tests_properties(experiments_files_workers_test PROPERTIES LABELS root TIMEOUT 300 SKIP_RETURN_CODE 77)

# Every kind of model and the LibTorch engine, in one process and behind links.
add_test(NAME experiments_models_on_links_test COMMAND
  ${PROJECT_SOURCE_DIR}/tests/experiments/command/models_on_links_test.sh $<TARGET_FILE:longhaul> ${TORCH_PYTHON}
  ${PROJECT_SOURCE_DIR}/experiments/specs/gpt-aten.toml
  ${PROJECT_SOURCE_DIR}/experiments/specs/llama-small.toml
  ${PROJECT_SOURCE_DIR}/experiments/specs/moe-small.toml
  ${PROJECT_SOURCE_DIR}/experiments/specs/moe-spread.toml
  -- --set train.steps=3 --set eval.rows=8 --set train.warmup_steps=0 --set model.context=64 --set train.dtype=bfloat16)
set_tests_properties(experiments_models_on_links_test PROPERTIES LABELS root TIMEOUT 900 SKIP_RETURN_CODE 77
  RESOURCE_LOCK lab_of_a_run)

# What `make bench-gpu` prints, rehearsed on the processor with a model that trains in milliseconds.
if(TARGET longhaul_python)
  add_test(NAME bench_device_table_test COMMAND ${TORCH_PYTHON} ${PROJECT_SOURCE_DIR}/bench/device_table.py
    $<TARGET_FILE:longhaul> --device cpu --stages 2 --microbatches 2 --steps 3 --seconds 0.2 --rounds 1
    --blocks 2 --width 64 --heads 2 --context 64 --rows 4)
  set_tests_properties(bench_device_table_test PROPERTIES LABELS python TIMEOUT 600 SKIP_RETURN_CODE 77
    ENVIRONMENT "PYTHONDONTWRITEBYTECODE=;PYTHONPYCACHEPREFIX=${PROJECT_BINARY_DIR}/pycache")
endif()

# Into the packages that `scripts/setup.sh test` puts beside torch's, where it could.
set(export_python ${PROJECT_SOURCE_DIR}/.venv-export/bin/python)
if(NOT EXISTS ${export_python})
  set(export_python ${TORCH_PYTHON})
endif()
longhaul_test(experiments/train/model_weights_test.cc experiments/train/tied_weights_test.cc LIBS command_testing longhaul::experiments_train
  longhaul::experiments_run longhaul::pp_group nlohmann_json::nlohmann_json LABELS cpu)
target_compile_definitions(experiments_train_model_weights_test PRIVATE LONGHAUL_EXPORT_PYTHON="${export_python}"
  LONGHAUL_TRANSFORMERS_SCRIPT="${CMAKE_CURRENT_SOURCE_DIR}/experiments/train/transformers_logits.py")
longhaul_test(experiments/price/price_model_test.cc experiments/price/price_plan_test.cc LIBS command_testing longhaul::price_run longhaul::price
  longhaul::experiments_run longhaul::pp_group LABELS cpu)
longhaul_test(experiments/command/price_command_test.cc LIBS command_testing nlohmann_json::nlohmann_json LABELS cpu)
add_test(NAME experiments_price_page_test COMMAND ${TORCH_PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/experiments/command/price_page_test.py
  $<TARGET_FILE:longhaul> ${PROJECT_SOURCE_DIR})
set_tests_properties(experiments_price_page_test PROPERTIES LABELS cpu TIMEOUT 600 COST 100)
add_test(NAME experiments_json_schemas_test COMMAND ${TORCH_PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/experiments/command/json_schemas_test.py
  $<TARGET_FILE:longhaul> ${PROJECT_SOURCE_DIR})
set_tests_properties(experiments_json_schemas_test PROPERTIES LABELS cpu TIMEOUT 600)
add_test(NAME experiments_tutorial_test COMMAND ${TORCH_PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/experiments/command/tutorial_test.py
  $<TARGET_FILE:longhaul> ${PROJECT_SOURCE_DIR})
set_tests_properties(experiments_tutorial_test PROPERTIES LABELS cpu TIMEOUT 600 COST 100)
add_test(NAME experiments_outer_python_test COMMAND ${TORCH_PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/experiments/command/outer_python_test.py
  $<TARGET_FILE:longhaul> ${PROJECT_SOURCE_DIR})
set_tests_properties(experiments_outer_python_test PROPERTIES LABELS "python;root" TIMEOUT 600)
add_test(NAME experiments_export_test COMMAND ${TORCH_PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/experiments/command/export_test.py
  $<TARGET_FILE:longhaul> ${CMAKE_CURRENT_SOURCE_DIR}/experiments/command/tiny.toml ${export_python})
set_tests_properties(experiments_export_test PROPERTIES LABELS python TIMEOUT 300 SKIP_RETURN_CODE 77)
