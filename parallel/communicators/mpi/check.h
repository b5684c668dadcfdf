// Checked calls of the functions of mpi/library.h.
#pragma once

#include <mpi.h>

namespace packtrain {

// Throws Error(kDevice) with the call, its location and MPI's text for `status`.
[[noreturn]] void throw_mpi_error(int status, const char* call, const char* file, int line);

}  // namespace packtrain

#define PACKTRAIN_MPI_CHECK(call)                                                \
  do {                                                                           \
    const int packtrain_status = (call);                                         \
    if (packtrain_status != MPI_SUCCESS) {                                       \
      ::packtrain::throw_mpi_error(packtrain_status, #call, __FILE__, __LINE__); \
    }                                                                            \
  } while (false)
