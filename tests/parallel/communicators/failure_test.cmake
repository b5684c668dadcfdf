# How a job ends when ranks fail: exit code of mpirun and what it prints. Run by CTest with
# -DMPIRUN="command and flags" -DPROGRAM=failing_rank
cmake_minimum_required(VERSION 3.25)
separate_arguments(MPIRUN)

# check(NAME RANKS n EXIT code PRINTED text ... ABSENT text ...): `PROGRAM NAME` on n ranks, or
# without a launcher when RANKS is missing, prints each PRINTED text once and no ABSENT one.
function(check name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "RANKS;EXIT" "PRINTED;ABSENT")
  set(command ${PROGRAM} ${name})
  if(arg_RANKS)
    set(command ${MPIRUN} -np ${arg_RANKS} ${command})
  endif()
  execute_process(COMMAND ${command} TIMEOUT 200
                  RESULT_VARIABLE exit_code OUTPUT_VARIABLE output ERROR_VARIABLE output)
  message(STATUS "${command}: exit code ${exit_code}\n${output}")
  if(NOT exit_code STREQUAL arg_EXIT)
    message(SEND_ERROR "${name}: exit code ${exit_code}, wanted ${arg_EXIT}")
  endif()
  foreach(text ${arg_PRINTED} ${arg_ABSENT})
    string(REPLACE "${text}" "" without "${output}")
    string(LENGTH "${text}" length)
    string(LENGTH "${output}" before)
    string(LENGTH "${without}" after)
    math(EXPR times "(${before} - ${after}) / ${length}")
    set(wanted 1)
    if(text IN_LIST arg_ABSENT)
      set(wanted 0)
    endif()
    if(NOT times EQUAL wanted)
      message(SEND_ERROR "${name}: '${text}' was printed ${times} times, wanted ${wanted}")
    endif()
  endforeach()
endfunction()

check(same EXIT 64 PRINTED "error: the same everywhere" ABSENT "rank")
check(same RANKS 1 EXIT 64 PRINTED "error: the same everywhere" ABSENT "rank")
check(same RANKS 2 EXIT 64 PRINTED "error: the same everywhere" ABSENT "rank 0" "rank 1")
check(same RANKS 4 EXIT 64 PRINTED "error: the same everywhere" ABSENT "rank 0" "rank 3")
check(different RANKS 2 EXIT 65 PRINTED "rank 0 on " "rank 1 on " "unlike 0" "unlike 1")
check(0 RANKS 2 EXIT 66 PRINTED "rank 0 on " "error: only here" ABSENT "rank 1")
check(1 RANKS 2 EXIT 66 PRINTED "rank 1 on " "error: only here" ABSENT "rank 0")

# As under the launcher of another MPI: every process would be a job of its own.
set(ENV{OMPI_COMM_WORLD_SIZE} 3)
check(same EXIT 69 PRINTED "the launcher started 3 processes, but MPI joined 1")
