# What the clock says of plans and of runs in simulated time; tests/python/planning has what Python makes of it.
if(LONGHAUL_TORCH)
  longhaul_test(planning/scale_closed_test.cc LIBS longhaul::scale LABELS cpu)
  longhaul_test(planning/plan_test.cc planning/plan_placement_test.cc planning/plan_links_test.cc
    LIBS longhaul::planner longhaul::pp_schedule fmt::fmt LABELS cpu)
  target_compile_definitions(planning_plan_test PRIVATE LONGHAUL_TEST_ROOT="${PROJECT_SOURCE_DIR}")
  longhaul_test(planning/scale_test.cc planning/scale_clock_test.cc LIBS longhaul::scale LABELS cpu)
  target_compile_definitions(planning_scale_test PRIVATE
    LONGHAUL_TEST_TIMING_GROUPS="${PROJECT_SOURCE_DIR}/docs/results/timing/timing-groups.csv")
else()
  longhaul_count_test(planning/scale_closed_test.cc planning/scale_test.cc planning/scale_clock_test.cc planning/plan_test.cc
    planning/plan_placement_test.cc planning/plan_links_test.cc)
endif()
