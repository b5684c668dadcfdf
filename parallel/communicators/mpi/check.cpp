#include "parallel/communicators/mpi/check.h"

#include <fmt/format.h>

#include <array>

#include "framework/core/error.h"
#include "parallel/communicators/mpi/library.h"

namespace packtrain {

void throw_mpi_error(int status, const char* call, const char* file, int line) {
  std::array<char, MPI_MAX_ERROR_STRING> words{};
  int length = 0;
  mpi().error_string(status, words.data(), &length);
  throw Error(ErrorCategory::kDevice,
              fmt::format("{} failed at {}:{}: {}", call, file, line, words.data()),
              "A peer or the network was lost: look at the messages of the other ranks.");
}

}  // namespace packtrain
