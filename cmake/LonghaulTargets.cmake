# The three functions every folder uses, and the one place where compiler flags stand.

add_library(longhaul_flags INTERFACE)
target_compile_features(longhaul_flags INTERFACE cxx_std_20)
# -ffp-contract=off: no compiler may fuse a multiply and an add, so every target rounds alike.
# -fPIC for programs too, so that they can use the libraries' precompiled headers.
target_compile_options(longhaul_flags INTERFACE -Wall -Wextra -Werror -ffp-contract=off -fPIC)
# GCC (12 and 14 were seen to) sees overruns in its own constexpr std::string (GCC bugs 105329, 105651,
# 105762).
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(longhaul_flags INTERFACE -Wno-array-bounds -Wno-restrict
    -Wno-stringop-overflow -Wno-stringop-overread)
endif()
if(LONGHAUL_SANITIZER STREQUAL "asan")
  target_compile_options(longhaul_flags INTERFACE -fsanitize=address,undefined
    -fno-sanitize-recover=all -fno-omit-frame-pointer -O1)
  target_link_options(longhaul_flags INTERFACE -fsanitize=address,undefined)
elseif(LONGHAUL_SANITIZER STREQUAL "tsan")
  target_compile_options(longhaul_flags INTERFACE -fsanitize=thread -fno-omit-frame-pointer -O1)
  target_link_options(longhaul_flags INTERFACE -fsanitize=thread)
elseif(LONGHAUL_SANITIZER)
  message(FATAL_ERROR "LONGHAUL_SANITIZER is '${LONGHAUL_SANITIZER}': want asan, tsan or nothing")
endif()

# Instrumented code confuses this warning, as GCC's manual says of -fsanitize.
if(LONGHAUL_SANITIZER AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(longhaul_flags INTERFACE -Wno-maybe-uninitialized)
endif()

# Coverage marks in everything that a fuzzer may reach.
if(LONGHAUL_FUZZERS)
  target_compile_options(longhaul_flags INTERFACE -fsanitize=fuzzer-no-link)
  if(LONGHAUL_FUZZ_MILLIONS)  # twice the inputs per second for twice the time to build
    target_compile_options(longhaul_flags INTERFACE -fno-sanitize-coverage=trace-cmp -O2)
  endif()
  add_custom_target(fuzzers)
endif()

find_program(LONGHAUL_CCACHE ccache)
if(LONGHAUL_CCACHE)
  # Without these, whatever uses a precompiled header is compiled anew each time.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
    CCACHE_SLOPPINESS=pch_defines,time_macros ${LONGHAUL_CCACHE})
  set(CMAKE_C_COMPILER_LAUNCHER ${LONGHAUL_CCACHE})
endif()
find_program(LONGHAUL_MOLD mold)
if(LONGHAUL_MOLD)
  add_link_options(-fuse-ld=mold)
endif()

# longhaul_headers(NAME header... LIBS libs [OPTIONS options]): headers that are parsed once for all
# targets that say HEADERS NAME or REUSE_FROM longhaul_headers_NAME. OPTIONS: what those compile with;
# GCC 13 and later want the same of -O1 and -O2 on both sides. A unit still includes what it uses: the
# asan preset goes without.
function(longhaul_headers name)
  cmake_parse_arguments(A "" "" "LIBS;OPTIONS" ${ARGN})
  add_library(longhaul_headers_${name} OBJECT EXCLUDE_FROM_ALL
    ${PROJECT_SOURCE_DIR}/cmake/headers/headers.cc)
  target_link_libraries(longhaul_headers_${name} PRIVATE longhaul_flags ${A_LIBS})
  target_compile_options(longhaul_headers_${name} PRIVATE ${A_OPTIONS})
  target_precompile_headers(longhaul_headers_${name} PRIVATE ${A_UNPARSED_ARGUMENTS})
endfunction()

# What is compiled in a hurry: libraries that say HEADERS quick, and the tests' own code.
set(LONGHAUL_QUICK_OPTIONS $<$<CONFIG:Release>:-O1>)

# longhaul_library(NAME SRCS a.cc b.cc [PUBLIC libs] [PRIVATE libs] [HEADERS name] [JOIN n]): static
# library longhaul_NAME, alias longhaul::NAME. PUBLIC is what our headers show, PRIVATE the rest.
# JOIN: n files are compiled as one unit, for those that spend their time in the same templates: a quarter
# less for a whole build, and more for a change of one file (-DLONGHAUL_JOIN=TESTS: file by file).
function(longhaul_library name)
  cmake_parse_arguments(A "" "HEADERS;JOIN" "SRCS;PUBLIC;PRIVATE" ${ARGN})
  add_library(longhaul_${name} STATIC ${A_SRCS})
  add_library(longhaul::${name} ALIAS longhaul_${name})
  target_include_directories(longhaul_${name} PUBLIC ${PROJECT_SOURCE_DIR})
  target_link_libraries(longhaul_${name} PUBLIC ${A_PUBLIC} PRIVATE longhaul_flags ${A_PRIVATE})
  if(A_HEADERS)
    target_precompile_headers(longhaul_${name} REUSE_FROM longhaul_headers_${A_HEADERS})
  endif()
  if("${A_HEADERS}" STREQUAL "quick")
    target_compile_options(longhaul_${name} PRIVATE ${LONGHAUL_QUICK_OPTIONS})
  endif()
  if(A_JOIN AND LONGHAUL_JOIN AND NOT LONGHAUL_JOIN STREQUAL "TESTS")
    set_target_properties(longhaul_${name} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${A_JOIN})
  endif()
endfunction()

# longhaul_test(folder/name_test.cc... LIBS libs [SRCS files] [NAME name] [LABELS labels] [TIMEOUT s]):
# one executable per call, named after the first file where no name is given, its tests compiled as one
# unit; GoogleTest's main. Called from tests/ only.
# Labels: cpu (runs anywhere), root (needs namespaces and /dev/net/tun), physical (measures links,
# which instrumented code slows down), guest (User Mode Linux), gpu, python.
function(longhaul_test)
  cmake_parse_arguments(A "" "TIMEOUT;NAME" "LIBS;LABELS;SRCS" ${ARGN})
  set(sources ${A_UNPARSED_ARGUMENTS})
  list(GET sources 0 first)
  if(A_NAME)
    set(target ${A_NAME})
  else()
    string(REPLACE "/" "_" target ${first})
    string(REGEX REPLACE "\\.cc$" "" target ${target})
  endif()
  add_executable(${target} ${sources} ${A_SRCS})
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(${target} PRIVATE longhaul_flags ${A_LIBS} GTest::gmock GTest::gtest
    GTest::gtest_main)
  if(LONGHAUL_JOIN)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 4)
    set_source_files_properties(${A_SRCS} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  endif()
  if(A_LIBS MATCHES "pp_group|plugin_backend")
    target_precompile_headers(${target} REUSE_FROM longhaul_headers_torch)
  else()
    target_compile_options(${target} PRIVATE ${LONGHAUL_QUICK_OPTIONS})
    target_precompile_headers(${target} REUSE_FROM longhaul_headers_test)
    target_link_libraries(${target} PRIVATE fmt::fmt)  # the same FMT_SHARED
  endif()
  add_test(NAME ${target} COMMAND ${target})
  if(NOT A_TIMEOUT)
    set(A_TIMEOUT 300)  # of a slow machine with other work; a test that hangs ends, too
  endif()
  # Exit status 77 is "skipped as a whole"; a single GTEST_SKIP prints its reason in the log.
  set_tests_properties(${target} PROPERTIES LABELS "${A_LABELS}" TIMEOUT ${A_TIMEOUT}
    SKIP_RETURN_CODE 77)
  longhaul_count_test(${sources})
endfunction()

# longhaul_test_library(NAME SRCS a.cc... LIBS libs): what several tests of a folder share, compiled
# once, with the tests' precompiled headers. torch-free.
function(longhaul_test_library name)
  cmake_parse_arguments(A "" "" "SRCS;LIBS" ${ARGN})
  add_library(${name} STATIC ${A_SRCS})
  target_include_directories(${name} PUBLIC ${PROJECT_SOURCE_DIR})
  target_link_libraries(${name} PUBLIC ${A_LIBS} PRIVATE longhaul_flags fmt::fmt GTest::gmock
    GTest::gtest)
  target_precompile_headers(${name} REUSE_FROM longhaul_headers_test)
  target_compile_options(${name} PRIVATE ${LONGHAUL_QUICK_OPTIONS})
endfunction()

# longhaul_fuzzer(folder/name_fuzz.cc [SRCS files] LIBS libs): a libFuzzer target for scripts/fuzz.sh,
# which builds with clang and -DLONGHAUL_FUZZERS=ON; nothing otherwise. SRCS: what it needs of a library
# of which it needs little, from the project's root.
function(longhaul_fuzzer source)
  if(NOT LONGHAUL_FUZZERS)
    return()
  endif()
  cmake_parse_arguments(A "" "" "SRCS;LIBS" ${ARGN})
  string(REPLACE "/" "_" target ${source})
  string(REGEX REPLACE "\\.cc$" "" target ${target})
  list(TRANSFORM A_SRCS PREPEND ${PROJECT_SOURCE_DIR}/)
  add_executable(${target} ${source} ${A_SRCS})
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(${target} PRIVATE longhaul_flags ${A_LIBS})
  target_precompile_headers(${target} REUSE_FROM longhaul_headers_base)
  target_link_options(${target} PRIVATE -fsanitize=fuzzer)
  set_target_properties(${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/fuzzers)
  add_dependencies(fuzzers ${target})
endfunction()

# Tests are listed AND counted: tests/CMakeLists.txt compares this list with the files on disk.
function(longhaul_count_test)
  set_property(GLOBAL APPEND PROPERTY LONGHAUL_TESTS ${ARGN})
endfunction()
