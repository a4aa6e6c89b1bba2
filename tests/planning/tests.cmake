# The planning model, and runs in simulated time.
longhaul_test(planning/simulator_golden_test.cc planning/simulator_golden_search_test.cc planning/simulator_pipeline_test.cc
  planning/simulator_formulas_test.cc planning/simulator_misprints_test.cc
  LIBS longhaul::simulator_model LABELS cpu)
longhaul_test(planning/simulator_scenario_test.cc LIBS longhaul::simulator LABELS cpu)
longhaul_test(planning/simulator_break_even_test.cc LIBS longhaul::simulator nlohmann_json::nlohmann_json LABELS cpu)
longhaul_test(planning/simulator_tables_test.cc LIBS longhaul::simulator nlohmann_json::nlohmann_json LABELS cpu)
longhaul_test(planning/simulator_bounds_test.cc LIBS longhaul::simulator LABELS cpu)
longhaul_test(planning/simulator_uncertainty_test.cc LIBS longhaul::simulator nlohmann_json::nlohmann_json LABELS cpu)
longhaul_test(planning/simulator_closed_test.cc LIBS longhaul::simulator_calibration LABELS cpu)
target_compile_definitions(planning_simulator_tables_test PRIVATE
  LONGHAUL_TEST_ENGINE_PAGE="${PROJECT_SOURCE_DIR}/docs/planner-engine.md"
  LONGHAUL_TEST_SCENARIOS="${PROJECT_SOURCE_DIR}/planning/scenarios")
target_compile_definitions(planning_simulator_scenario_test PRIVATE
  LONGHAUL_TEST_SCENARIOS="${PROJECT_SOURCE_DIR}/planning/scenarios")
longhaul_test(planning/simulator_calibration_test.cc LIBS longhaul::simulator_calibration LABELS cpu)
longhaul_test(planning/simulator_parts_test.cc LIBS longhaul::simulator_calibration nlohmann_json::nlohmann_json fmt::fmt LABELS cpu)
if(LONGHAUL_TORCH)
  longhaul_test(planning/scale_closed_test.cc LIBS longhaul::scale LABELS cpu)
  longhaul_test(planning/plan_test.cc planning/plan_placement_test.cc planning/plan_quality_test.cc
    LIBS longhaul::planner longhaul::pp_schedule nlohmann_json::nlohmann_json fmt::fmt LABELS cpu)
  target_compile_definitions(planning_plan_test PRIVATE LONGHAUL_TEST_ROOT="${PROJECT_SOURCE_DIR}")
  longhaul_test(planning/scale_test.cc planning/scale_clock_test.cc LIBS longhaul::scale LABELS cpu)
  target_compile_definitions(planning_scale_test PRIVATE
    LONGHAUL_TEST_TIMING_GROUPS="${PROJECT_SOURCE_DIR}/docs/results/timing/timing-groups.csv")
else()
  longhaul_count_test(planning/scale_closed_test.cc planning/scale_test.cc planning/scale_clock_test.cc planning/plan_test.cc
    planning/plan_placement_test.cc planning/plan_quality_test.cc)
endif()
