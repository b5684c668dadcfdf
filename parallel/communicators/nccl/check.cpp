#include "parallel/communicators/nccl/check.h"

#include <fmt/format.h>

#include "framework/core/error.h"

namespace packtrain {

void throw_nccl_error(ncclResult_t status, ncclComm_t comm, const char* call, const char* file,
                      int line) {
  throw Error(ErrorCategory::kDevice,
              fmt::format("{} failed at {}:{}: {}: {}", call, file, line,
                          ncclGetErrorString(status), ncclGetLastError(comm)),
              "NCCL_DEBUG=WARN in the environment makes NCCL tell more.");
}

}  // namespace packtrain
