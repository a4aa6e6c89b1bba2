# The command as a user meets it: these start build/longhaul.
foreach(name bad_input faults shaped)
  longhaul_test(runs/${name}_test.cc SRCS runs/command_line.cc LABELS cpu TIMEOUT 300)
  target_compile_definitions(runs_${name}_test PRIVATE LONGHAUL_BINARY="$<TARGET_FILE:longhaul>")
  add_dependencies(runs_${name}_test longhaul)
endforeach()
longhaul_test(runs/link_faults_test.cc SRCS runs/command_line.cc LIBS longhaul::netem LABELS root)
target_compile_definitions(runs_link_faults_test PRIVATE LONGHAUL_BINARY="$<TARGET_FILE:longhaul>")
add_dependencies(runs_link_faults_test longhaul)
longhaul_test(runs/processes_test.cc SRCS runs/command_line.cc LIBS longhaul::experiments_run
  LABELS cpu)
target_compile_definitions(runs_processes_test PRIVATE LONGHAUL_BINARY="$<TARGET_FILE:longhaul>")
# Real time on real links: nothing else may run beside it.
set_tests_properties(runs_shaped_test PROPERTIES LABELS "root;physical" RUN_SERIAL TRUE)
set_tests_properties(runs_faults_test runs_link_faults_test PROPERTIES RUN_SERIAL TRUE)
