#!/usr/bin/env bash
# Proves the arrows of docs/architecture.md: which folder may include which. Usage: arrows.sh REPO
cd "${1:?usage: arrows.sh REPO}" || exit 2
bad=0
deny() {
  local folder=$1 forbidden=$2
  if grep -rnE "^ *# *include [\"<]($forbidden)/" "$folder"; then
    echo "^ $folder may not include $forbidden"
    bad=1
  fi
}
deny base 'compressors|netem|plugin|pp_group|experiments|tests|torch|ATen|c10|sys'
deny compressors 'netem|plugin|pp_group|experiments|tests|torch|ATen|c10|sys'
deny netem 'compressors|plugin|pp_group|experiments|tests|torch|ATen|c10'
deny plugin 'netem|pp_group|experiments|tests'
deny plugin/core 'plugin/backend|plugin/swarm|torch|ATen|c10'
deny plugin/swarm 'plugin/backend|torch|ATen|c10'
deny pp_group 'netem|plugin|experiments|tests'
deny experiments 'tests'
# Inside python/longhaul: record <- analysis <- report, and analysis <- planning, pricing; commands see all of them.
unlike() {
  local room=$1 forbidden=$2
  if grep -rnE "^ *(from|import) longhaul\.($forbidden)( |\.|$)" "python/longhaul/$room"; then
    echo "^ python/longhaul/$room may not import $forbidden"
    bad=1
  fi
}
unlike tables.py '.*'
unlike record 'analysis|report|planning|pricing|commands'
unlike analysis 'report|planning|pricing|commands'
unlike report 'pricing'
unlike planning 'pricing'
# Inside compressors: numbers <- kernels, frame <- states <- families <- wrappers <- root <- cuda; the words of all of
# them, tensor.h, isa.h and (not for kernels, which stay free of Abseil) codec.h, stand at the root.
above() {
  local room=$1 rooms=$2 words=${3-codec|isa|tensor}
  deny "compressors/$room" "compressors/($rooms)"
  if grep -rnE '^ *# *include "compressors/[a-z_0-9]+\.h"' "compressors/$room" | grep -vE "compressors/($words)\.h\""; then
    echo "^ compressors/$room may include nothing of the root but $words"
    bad=1
  fi
}
above numbers 'kernels|frame|states|families|wrappers|cuda' 'tensor'
above kernels 'frame|states|families|wrappers|cuda' 'isa|tensor'
above frame 'kernels|states|families|wrappers|cuda'
above states 'families|wrappers|cuda'
above families 'wrappers|cuda'
above wrappers 'cuda'
# Inside netem: topology (plain values) and kernel (what the system calls are) know nothing of links; the rest does.
inside() {
  if grep -rnE '^ *# *include "netem/' "netem/$1" | grep -v "\"netem/$1/"; then
    echo "^ netem/$1 may include nothing else of netem"
    bad=1
  fi
}
inside topology
inside kernel
deny netem/queues 'netem/(emulators|kernel|machine|nodes|probes|lab|lab_control)'
deny netem/emulators 'netem/(machine|probes|lab|lab_control)'
deny netem/probes 'netem/(lab|lab_control)'
deny netem/lab 'netem/lab_control'
# Inside experiments: record <- spec <- estimates, and record, spec <- train <- run; train <- planning <- command.
deny experiments/record 'experiments/(spec|estimates|train|planning|run|command)'
deny experiments/spec 'experiments/(estimates|train|planning|run|command)'
deny experiments/estimates 'experiments/(train|planning|run|command)'
deny experiments/trace 'experiments/(record|spec|estimates|train|planning|elastic|run|command)|torch|ATen|c10'
deny experiments/planning 'experiments/(estimates|launch|elastic|run|price|command)|torch|ATen|c10'
deny experiments/train 'experiments/(estimates|launch|planning|run|command)'
deny experiments/elastic 'experiments/(estimates|planning|run|command)'
deny experiments/run 'experiments/(estimates|planning|command)'
deny experiments/price 'experiments/(estimates|planning|command)'
for room in record spec estimates train elastic run; do
  deny "experiments/$room" 'experiments/price'
done
# What runs a campaign's [program] reads its spec, and tells what a worker of ours tells.
for file in experiments/launch/*; do
  case $file in
    */program_*) deny "$file" 'experiments/(elastic|planning|price|command)' ;;
    *) deny "$file" 'experiments/(spec|train|planning|elastic|price|command)' ;;
  esac
done
# Inside pp_group: the seam (a stage, what it is told) <- engines <- models/model.cc, the one place that chooses. Models
# are written in the aten engine's model.h and ops.h. The root knows models, and no engine.
only() {
  local files=$1 allowed=$2
  # shellcheck disable=SC2086
  if grep -rnE '^ *# *include "pp_group/' $files | grep -vE "include \"pp_group/($allowed)\.h\""; then
    echo "^ of pp_group, these files may include nothing but $allowed"
    bad=1
  fi
}
seam='stage|stage_layout|device_check|device_name|injected_compute'
only pp_group/engines/aten "engines/aten/[a-z_]+|models/model|$seam"
only pp_group/engines/cpu "engines/cpu/[a-z_]+|kernels/kernels|models/model_spec|$seam"
only pp_group/engines/injected "engines/injected/[a-z_]+|$seam"
only pp_group/models/model.cc "engines/[a-z]+/[a-z_]*stage|models/[a-z_]+|$seam"
only "$(find pp_group/models -type f ! -name model.cc)" "engines/aten/(model|ops)|models/[a-z_]+|$seam"
only pp_group/kernels 'kernels/[a-z_0-9]+'
only pp_group/schedule 'schedule/[a-z_]+'
only 'pp_group/outer/outer_plan.h pp_group/outer/outer_plan.cc pp_group/outer/outer_rules.h pp_group/outer/outer_rules.cc' 'outer/outer_(plan|rules)'
only pp_group/data 'data/[a-z_]+'
only pp_group/memory 'memory/[a-z_]+|device_check|c10d_status'
only pp_group/optimizer 'optimizer/[a-z_]+|kernels/kernels|stage'
only "$(find pp_group -maxdepth 1 -name '*.[ch]*')" '([a-z_0-9]+|kernels/kernels|models/model|models/model_spec|(data|memory|optimizer|outer|schedule|state)/[a-z_]+)'
for folder in common utils util core; do
  if [ -e "$folder" ]; then
    echo "a top-level $folder/ is not wanted: shared code lives in the lowest folder that needs it"
    bad=1
  fi
done
[ "$bad" = 0 ] && echo "arrows hold"
exit "$bad"
