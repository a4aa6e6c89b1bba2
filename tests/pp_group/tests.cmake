add_library(pp_group_testing STATIC pp_group/memory_backend.cc pp_group/training.cc)
target_include_directories(pp_group_testing PUBLIC ${PROJECT_SOURCE_DIR})
target_link_libraries(pp_group_testing PUBLIC longhaul::pp_group longhaul::compressors
  PRIVATE longhaul_flags GTest::gtest)
target_precompile_headers(pp_group_testing REUSE_FROM longhaul_headers_torch)
target_compile_definitions(pp_group_testing PRIVATE
  LONGHAUL_GOLDEN_DIRECTORY="${CMAKE_CURRENT_SOURCE_DIR}/golden")

longhaul_test(pp_group/schedule/schedule_test.cc pp_group/schedule/schedule_csv_test.cc
  pp_group/schedule/tcp_receiver_test.cc pp_group/schedule/tcp_sender_test.cc
  pp_group/schedule/wire_test.cc
  NAME pp_schedule_test LIBS longhaul::pp_schedule LABELS cpu)
longhaul_test(pp_group/schedule/clock_test.cc NAME pp_clock_test LIBS longhaul::pp_schedule LABELS cpu)
longhaul_test(pp_group/outer/outer_plan_test.cc NAME pp_outer_plan_test LIBS longhaul::pp_schedule LABELS cpu)
longhaul_test(pp_group/schedule/schedule_torch_test.cc
  NAME pp_schedule_torch_test LIBS longhaul::pp_schedule LABELS cpu TIMEOUT 300)
target_compile_definitions(pp_schedule_torch_test PRIVATE LONGHAUL_TEST_PYTHON="${TORCH_PYTHON}"
  LONGHAUL_TEST_SCRIPT="${CMAKE_CURRENT_SOURCE_DIR}/pp_group/schedule/schedule_torch.py")
longhaul_test(pp_group/data/corpus_test.cc pp_group/data/corpus_order_test.cc pp_group/data/corpus_format_test.cc
  pp_group/kernels/kernels_test.cc pp_group/engines/stage_test.cc SRCS pp_group/autograd_gpt.cc NAME pp_group_model_test
  LIBS longhaul::pp_group longhaul::compressors LABELS cpu)
longhaul_test(pp_group/engines/aten_stage_test.cc LIBS longhaul::pp_group longhaul::compressors LABELS cpu)
longhaul_test(pp_group/models/models_golden_test.cc LIBS pp_group_testing LABELS cpu)
add_test(NAME pp_group_models_golden_file COMMAND ${TORCH_PYTHON}
  ${CMAKE_CURRENT_SOURCE_DIR}/pp_group/models/models_golden.py)
set_tests_properties(pp_group_models_golden_file PROPERTIES LABELS cpu TIMEOUT 300)
longhaul_test(pp_group/device_name_test.cc pp_group/memory/memory_limit_test.cc NAME pp_group_device_test
  LIBS longhaul::pp_group LABELS cpu)
longhaul_test(pp_group/memory/tensor_memory_test.cc LIBS longhaul::pp_group LABELS cpu)
longhaul_test(pp_group/trainer_test.cc pp_group/state/checkpoint_test.cc
  pp_group/state/checkpoint_sections_test.cc pp_group/train_spec_test.cc pp_group/state/checkpoint_writer_test.cc pp_group/state/reshard_test.cc
  pp_group/engines/injected_test.cc pp_group/executor_test.cc pp_group/outer/poison_test.cc pp_group/elastic_test.cc
  pp_group/state/handover_test.cc pp_group/outer/outer_step_test.cc pp_group/optimizer/adamw_test.cc pp_group/parameter_hash_test.cc pp_group/microbatches_test.cc
  SRCS pp_group/autograd_gpt.cc NAME pp_group_training_test LIBS pp_group_testing LABELS cpu TIMEOUT 900)  # 100 s of a slow core alone
longhaul_test(pp_group/past_weights_test.cc NAME pp_group_past_weights_test LIBS pp_group_testing LABELS cpu)
add_test(NAME pp_group_async_golden_file COMMAND ${TORCH_PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/pp_group/async_golden.py)
set_tests_properties(pp_group_async_golden_file PROPERTIES LABELS cpu TIMEOUT 300)
longhaul_test(pp_group/models/expert_parallel_test.cc LIBS longhaul::pp_group longhaul::plugin_backend LABELS cpu)
longhaul_test(pp_group/expert_training_test.cc SRCS pp_group/loopback_ranks.cc
  ${PROJECT_SOURCE_DIR}/experiments/train/boundary_state.cc
  LIBS pp_group_testing longhaul::plugin_backend longhaul::compressors LABELS cpu)
longhaul_test(pp_group/tied_training_test.cc pp_group/frame_parts_test.cc SRCS pp_group/loopback_ranks.cc
  ${PROJECT_SOURCE_DIR}/experiments/train/boundary_state.cc
  NAME pp_group_tied_test LIBS pp_group_testing longhaul::plugin_backend longhaul::compressors LABELS cpu)
longhaul_test(pp_group/outer/diloco_golden_test.cc NAME pp_group_outer_golden_test LIBS pp_group_testing LABELS cpu)
add_test(NAME pp_group_outer_golden_file COMMAND ${TORCH_PYTHON}
  ${CMAKE_CURRENT_SOURCE_DIR}/pp_group/outer/diloco_golden.py)
set_tests_properties(pp_group_outer_golden_file PROPERTIES LABELS cpu TIMEOUT 300)
longhaul_test(pp_group/outer/outer_algorithms_test.cc pp_group/outer/outer_values_test.cc pp_group/outer/fragments_test.cc SRCS pp_group/loopback_ranks.cc
  ${PROJECT_SOURCE_DIR}/experiments/train/boundary_state.cc
  NAME pp_group_outer_algorithms_test LIBS pp_group_testing longhaul::plugin_backend longhaul::compressors LABELS cpu)
longhaul_test(pp_group/backend_test.cc pp_group/boundary_golden_test.cc pp_group/state/resume_test.cc SRCS pp_group/loopback_ranks.cc
  ${PROJECT_SOURCE_DIR}/experiments/train/boundary_state.cc
  NAME pp_group_backend_test LIBS pp_group_testing longhaul::plugin_backend longhaul::compressors
  LABELS cpu)

add_test(NAME pp_group_boundary_golden_file COMMAND ${TORCH_PYTHON}
  ${CMAKE_CURRENT_SOURCE_DIR}/pp_group/boundary_golden.py)
set_tests_properties(pp_group_boundary_golden_file PROPERTIES LABELS cpu TIMEOUT 300)

# One device shared by processes; on a GPU by `make gpu-test`.
add_executable(stage_hash pp_group/stage_hash.cc)
target_link_libraries(stage_hash PRIVATE longhaul_flags longhaul::pp_group longhaul::compressors)
target_precompile_headers(stage_hash REUSE_FROM longhaul_headers_torch)
add_custom_target(pp_group_shared_device_test DEPENDS stage_hash)  # what the test needs, by its name
add_test(NAME pp_group_shared_device_test COMMAND ${TORCH_PYTHON}
  ${CMAKE_CURRENT_SOURCE_DIR}/pp_group/shared_device.py $<TARGET_FILE:stage_hash> cpu --rounds 5)
set_tests_properties(pp_group_shared_device_test PROPERTIES LABELS cpu TIMEOUT 300)

if(LONGHAUL_BENCHMARKS)
  add_executable(pp_group_bench ${PROJECT_SOURCE_DIR}/bench/pp_group_bench.cc)
  target_link_libraries(pp_group_bench PRIVATE longhaul_flags pp_group_testing)
endif()
