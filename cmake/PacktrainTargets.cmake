# packtrain_library(NAME SOURCES ... [LINK public libraries ...] [PRIVATE libraries ...] [TORCH])
# packtrain_test(NAME SOURCES ... [LINK libraries ...] [RANKS n ...] [LABELS ...] [TIMEOUT s] [COST s] [TORCH] [THREADS])
# packtrain_test_program(NAME SOURCES ... [LINK libraries ...] [TORCH])
# packtrain_benchmark(NAME SOURCES ... [LINK libraries ...] [TORCH] [GPU])
# packtrain_pytest(NAME FILE file.py [LABELS ...] [TIMEOUT s] [COST s] [PROGRAM] [PROCESSORS n] [ENVIRONMENT NAME=value ...])
# TORCH: uses libtorch (CUDA's too where built). All but plain libraries have a shared precompiled header.
# THREADS: what the thread sanitizer is for; label `threads`.
# PROGRAM: starts packtrain, whose path is in PACKTRAIN_PROGRAM.
# PROCESSORS: how many of the four places of tests/run it takes: 2 with ranks, 3 with ranks and limits of seconds.
# COST: how long it takes, for long tests. CTest starts these first, so that none of them runs alone at the end. Tests of
# several places come before: while others end one by one, no two places are free.

function(packtrain_compile_options target)
  target_compile_options(${target} PRIVATE
    $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Werror>
    $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra --Werror=all-warnings>)
  if(PACKTRAIN_SANITIZE)
    target_compile_options(${target} PRIVATE
      # Sanitizers' own code looks wrong to gcc (its manual says so of these warnings). The release build has them as errors.
      $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${PACKTRAIN_SANITIZE} -fno-omit-frame-pointer>
      $<$<COMPILE_LANGUAGE:CXX>:${PACKTRAIN_SANITIZE_FLAGS}>
      $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-maybe-uninitialized -Wno-error>)
    target_link_options(${target} PUBLIC -fsanitize=${PACKTRAIN_SANITIZE})
  endif()
endfunction()

# packtrain_add_pch(NAME LINK libraries...): the target whose precompiled header cmake/NAME.h others use.
function(packtrain_add_pch name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "LINK")
  add_library(packtrain_${name} OBJECT "${PROJECT_SOURCE_DIR}/cmake/pch.cpp")
  target_link_libraries(packtrain_${name} PRIVATE ${arg_LINK})
  packtrain_compile_options(packtrain_${name})
  if(PACKTRAIN_PRECOMPILED_HEADER)
    target_precompile_headers(packtrain_${name} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:${PROJECT_SOURCE_DIR}/cmake/${name}.h>")
    # ccache needs this to reuse a precompiled header of another clone
    target_compile_options(packtrain_${name} PRIVATE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fpch-preprocess>)
  endif()
endfunction()
packtrain_add_pch(torch_pch LINK LibTorch::cpu)

function(packtrain_use_pch target name)
  if(PACKTRAIN_PRECOMPILED_HEADER)
    target_precompile_headers(${target} REUSE_FROM packtrain_${name})
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fpch-preprocess>)
  endif()
endfunction()

function(packtrain_link_torch target)
  target_link_libraries(${target} PUBLIC LibTorch::cpu)
  if(PACKTRAIN_WITH_CUDA)
    target_link_libraries(${target} PUBLIC LibTorch::cuda)
  endif()
endfunction()

function(packtrain_use_torch target)
  packtrain_link_torch(${target})
  packtrain_use_pch(${target} torch_pch)
endfunction()

# Tests take longer to compile than to run, so they are optimized less. Their precompiled headers are, too.
function(packtrain_compile_fast target)
  target_compile_options(${target} PRIVATE
    # Less optimized code looks uninitialized to gcc more often.
    $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CONFIG:Release>>:-O1 -Wno-maybe-uninitialized>)
endfunction()
set(PACKTRAIN_GTEST_PCH OFF)
if(PACKTRAIN_TESTS AND PACKTRAIN_PRECOMPILED_HEADER AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  set(PACKTRAIN_GTEST_PCH ON)
  packtrain_add_pch(gtest_pch LINK GTest::gtest)
  packtrain_add_pch(torch_gtest_pch LINK LibTorch::cpu GTest::gtest)
  packtrain_compile_fast(packtrain_gtest_pch)
  packtrain_compile_fast(packtrain_torch_gtest_pch)
endif()

# JSON alone, for a library most of whose files write or read it.
function(packtrain_precompile_json target)
  if(PACKTRAIN_PRECOMPILED_HEADER)
    target_precompile_headers(${target} PRIVATE <nlohmann/json.hpp>)
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fpch-preprocess>)
  endif()
endfunction()

# Compiles several files of a target as one: headers and templates that they share are compiled once.
# Names in anonymous namespaces must then differ within a target.
function(packtrain_use_unity target)
  get_target_property(sources ${target} SOURCES)
  list(FILTER sources INCLUDE REGEX "\\.cu$")  # newer versions of CMake would join these too
  set_source_files_properties(${sources} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${PACKTRAIN_UNITY} UNITY_BUILD_BATCH_SIZE 8)
endfunction()

function(packtrain_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "TORCH" "" "SOURCES;LINK;PRIVATE")
  add_library(${name} STATIC ${arg_SOURCES})
  packtrain_use_unity(${name})
  target_include_directories(${name} PUBLIC "${PROJECT_SOURCE_DIR}")
  target_link_libraries(${name} PUBLIC ${arg_LINK} PRIVATE ${arg_PRIVATE})
  packtrain_compile_options(${name})
  if(arg_TORCH)
    packtrain_use_torch(${name})
  endif()
endfunction()

# What programs share: packtrain_add_program(NAME SOURCES ... [LINK libraries ...])
function(packtrain_add_program name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LINK")
  add_executable(${name} ${arg_SOURCES})
  packtrain_use_unity(${name})
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}")
  target_link_libraries(${name} PRIVATE ${arg_LINK})
  packtrain_compile_options(${name})
endfunction()

# build/bin/NAME, a program that measures. With GPU the target `benchmarks` alone builds it (launch/build benchmarks):
# most machines that build have none.
function(packtrain_benchmark name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "TORCH;GPU" "" "SOURCES;LINK")
  packtrain_add_program(${name} SOURCES ${arg_SOURCES} LINK ${arg_LINK})
  if(arg_TORCH)
    packtrain_use_torch(${name})
    set_target_properties(${name} PROPERTIES BUILD_RPATH "${LibTorch_RPATH}")
  endif()
  if(arg_GPU)
    set_target_properties(${name} PROPERTIES EXCLUDE_FROM_ALL ON)
  endif()
endfunction()

# mpirun as our launcher calls it, for tests on few cores.
set(PACKTRAIN_MPIRUN mpirun --allow-run-as-root --oversubscribe --bind-to none
    --mca btl_vader_single_copy_mechanism none --mca btl self,vader)

# A program of the tests that CTest does not start itself: a tool of a Python test, or a GPU test.
# GPU tests (NAME_gpu_test, NAME_2_ranks_gpu_test, NAME_2_hosts_gpu_test) are built everywhere. tests/run --gpu runs them.
function(packtrain_test_program name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "TORCH" "" "SOURCES;LINK")
  packtrain_add_program(${name} SOURCES ${arg_SOURCES} LINK ${arg_LINK})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests"
                        BUILD_RPATH "${LibTorch_RPATH}"
                        LINKER_LANGUAGE CXX)  # also where all sources are objects of another program
  if(PACKTRAIN_GTEST_PCH AND "GTest::gtest" IN_LIST arg_LINK)
    packtrain_compile_fast(${name})
    if(arg_TORCH)
      packtrain_link_torch(${name})
      packtrain_use_pch(${name} torch_gtest_pch)
    else()
      packtrain_use_pch(${name} gtest_pch)
    endif()
  elseif(arg_TORCH)
    packtrain_use_torch(${name})
  endif()
endfunction()

# Open MPI unloads its plugins before the leak check, so what they leak has no name to suppress.
if(PACKTRAIN_SANITIZE MATCHES address)
  set(PACKTRAIN_MPI_TEST_ENVIRONMENT "ASAN_OPTIONS=detect_leaks=0")
endif()

# packtrain_sanitize_test(NAME): tests/sanitizer builds it, by the folder of tests/ that it is in (sanitized_tests_FOLDER).
function(packtrain_sanitize_test name)
  cmake_path(RELATIVE_PATH CMAKE_CURRENT_SOURCE_DIR BASE_DIRECTORY "${PROJECT_SOURCE_DIR}/tests" OUTPUT_VARIABLE folder)
  string(REGEX REPLACE "/.*" "" folder "${folder}")
  if(NOT TARGET sanitized_tests_${folder})
    add_custom_target(sanitized_tests_${folder})
  endif()
  add_dependencies(sanitized_tests_${folder} ${name})
endfunction()

function(packtrain_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "TORCH;THREADS" "TIMEOUT;COST" "SOURCES;LINK;RANKS;LABELS")
  if(arg_THREADS)
    list(APPEND arg_LABELS threads)
  endif()
  set(torch "")
  if(arg_TORCH)
    set(torch TORCH)
  endif()
  packtrain_test_program(${name} SOURCES ${arg_SOURCES} LINK ${arg_LINK} GTest::gtest ${torch})
  if(arg_THREADS OR NOT PACKTRAIN_SANITIZE STREQUAL "thread")
    packtrain_sanitize_test(${name})
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 600)  # ends what hangs, however slow the machine is
  endif()
  if(NOT arg_RANKS)
    target_link_libraries(${name} PRIVATE GTest::gtest_main)
    add_test(NAME ${name} COMMAND ${name})
    # CTest runs several at a time: threads of OpenMP that wait for a core cost more than they bring.
    set_tests_properties(${name} PROPERTIES TIMEOUT ${arg_TIMEOUT} LABELS "${arg_LABELS}"
                         ENVIRONMENT "OMP_NUM_THREADS=1")
    if(arg_COST)
      set_tests_properties(${name} PROPERTIES COST ${arg_COST})
    endif()
  else()  # brings its own main, which joins the world
    foreach(ranks ${arg_RANKS})
      add_test(NAME ${name}_${ranks}_ranks COMMAND ${PACKTRAIN_MPIRUN} -np ${ranks} $<TARGET_FILE:${name}>)
      set_tests_properties(${name}_${ranks}_ranks PROPERTIES TIMEOUT ${arg_TIMEOUT} PROCESSORS 2 COST 200
                           LABELS "${arg_LABELS}"
                           ENVIRONMENT "OMP_NUM_THREADS=1;${PACKTRAIN_MPI_TEST_ENVIRONMENT}")
    endforeach()
  endif()
endfunction()

# A Python test in the pinned environment, with LABELS and the label `python`. What is slow gets the label half_0 or
# half_1 too: a run has one of them (tests/rotation.py).
function(packtrain_pytest name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "PROGRAM" "FILE;TIMEOUT;COST;PROCESSORS" "LABELS;ENVIRONMENT")
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 600)  # ends what hangs, however slow the machine is
  endif()
  if(arg_PROGRAM)
    list(PREPEND arg_ENVIRONMENT "PACKTRAIN_PROGRAM=$<TARGET_FILE:packtrain>")
  endif()
  if(slow IN_LIST arg_LABELS)
    string(MD5 hash ${name})
    string(SUBSTRING ${hash} 0 1 digit)
    math(EXPR half "0x${digit} % 2")
    list(APPEND arg_LABELS half_${half})
  endif()
  add_test(NAME ${name}
    COMMAND "${LibTorch_PYTHON}" -m pytest -q -p no:cacheprovider "${CMAKE_CURRENT_SOURCE_DIR}/${arg_FILE}")
  set_tests_properties(${name} PROPERTIES TIMEOUT ${arg_TIMEOUT} LABELS "python;${arg_LABELS}"
    ENVIRONMENT "PYTHONDONTWRITEBYTECODE=1;${arg_ENVIRONMENT}")
  if(arg_PROCESSORS)
    math(EXPR arg_COST "100 * ${arg_PROCESSORS}")
    set_tests_properties(${name} PROPERTIES PROCESSORS ${arg_PROCESSORS})
  endif()
  if(arg_COST)
    set_tests_properties(${name} PROPERTIES COST ${arg_COST})
  endif()
endfunction()
