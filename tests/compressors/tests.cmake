foreach(name golden_test contract_test isa_test nmse_test error_feedback_test catalog_test survey_test selection_test
             reference_test codec_threads_test frame_pieces_test allocation_test
             state_test saved_state_test mirror_test saturate_test low_rank_test transform_test gauss_test bad_input_test)
  longhaul_test(compressors/${name}.cc LIBS longhaul::compressors fmt::fmt LABELS cpu TIMEOUT 600)
endforeach()

# The AVX-512 kernels where there is no AVX-512: compiled for SIMDe, these objects take the place of
# the library's. ISA tests skip this set on such machines.
find_file(LONGHAUL_SIMDE simde/x86/avx512.h)
if(LONGHAUL_SIMDE AND CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  add_library(avx512_by_simde OBJECT ${PROJECT_SOURCE_DIR}/compressors/kernels/avx512/kernels.cc)
  target_include_directories(avx512_by_simde PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(avx512_by_simde PRIVATE longhaul_flags)
  # -fwrapv: additions wrap as those of the instructions do.
  target_compile_options(avx512_by_simde PRIVATE ${LONGHAUL_QUICK_OPTIONS} -mavx2 -mf16c -mfma
    -fwrapv -Wno-psabi -include ${CMAKE_CURRENT_SOURCE_DIR}/compressors/avx512_by_simde.h)
  longhaul_test(compressors/avx512_by_simde_test.cc compressors/isa_test.cc
    LIBS avx512_by_simde longhaul::compressors fmt::fmt LABELS cpu TIMEOUT 600)
  set_tests_properties(compressors_avx512_by_simde_test PROPERTIES ENVIRONMENT GTEST_FILTER=*avx512*)
else()
  add_test(NAME compressors_avx512_by_simde_test COMMAND sh -c
    "echo 'skipped: no SIMDe for this processor here; apt-get install libsimde-dev'; exit 77")
  set_tests_properties(compressors_avx512_by_simde_test PROPERTIES LABELS cpu SKIP_RETURN_CODE 77)
  longhaul_count_test(compressors/avx512_by_simde_test.cc)
endif()

# The CUDA kernels' text on the host: no GPU, no nvcc.
set_source_files_properties(compressors/cuda_host_device.cc PROPERTIES COMPILE_OPTIONS
  "$<$<CONFIG:Release>:-O1>")  # every kernel there is: half the time of -O2
longhaul_test(compressors/cuda_host_test.cc
              SRCS compressors/cuda_host_device.cc
              LIBS longhaul::device_codecs fmt::fmt LABELS cpu TIMEOUT 600)
# The same codecs on a GPU; skips where there is none.
if(LONGHAUL_CUDA)
  find_package(CUDAToolkit REQUIRED)
  longhaul_test(compressors/cuda_gpu_test.cc
                SRCS compressors/cuda_device_memory.cc
                LIBS longhaul::cuda fmt::fmt LABELS gpu TIMEOUT 600)
  set_target_properties(compressors_cuda_gpu_test PROPERTIES LINKER_LANGUAGE CXX)
else()
  longhaul_count_test(compressors/cuda_gpu_test.cc)
endif()

# Hostile bytes against every decoder: one program, whose name says which family it tries.
longhaul_fuzzer(compressors/decoder_fuzz.cc LIBS longhaul::compressors)
if(LONGHAUL_FUZZERS)
  foreach(family cast fp8 int_block ggml_block dynamic_map minmax fp4 tah
                 aqsgd gact gauss topk randk statistical sign qsgd powersgd diloco_x demo
                 ef21 frame)
    add_custom_command(TARGET compressors_decoder_fuzz POST_BUILD
      COMMAND ${CMAKE_COMMAND} -E create_symlink compressors_decoder_fuzz
              compressors_decoder_${family}_fuzz
      WORKING_DIRECTORY ${PROJECT_BINARY_DIR}/fuzzers)
  endforeach()
endif()
