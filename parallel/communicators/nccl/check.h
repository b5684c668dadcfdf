// Checked calls of NCCL functions.
#pragma once

#include <nccl.h>

namespace packtrain {

// Throws Error(kDevice) with the call, its location and NCCL's text; `comm` may be null.
[[noreturn]] void throw_nccl_error(ncclResult_t status, ncclComm_t comm, const char* call,
                                   const char* file, int line);

}  // namespace packtrain

#define PACKTRAIN_NCCL_CHECK(comm, call)                                                \
  do {                                                                                  \
    const ncclResult_t packtrain_status = (call);                                       \
    if (packtrain_status != ncclSuccess) {                                              \
      ::packtrain::throw_nccl_error(packtrain_status, comm, #call, __FILE__, __LINE__); \
    }                                                                                   \
  } while (false)
