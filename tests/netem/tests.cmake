longhaul_test(netem/topology_test.cc LIBS longhaul::netem LABELS cpu)
