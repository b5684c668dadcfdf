#include "parallel/host_name.h"

#include <unistd.h>

#include <array>
#include <cstdlib>

namespace packtrain {

std::string host_name() {
  const char* chosen = std::getenv("NCCL_HOSTID");
  if (chosen != nullptr && *chosen != '\0') return chosen;
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) return "unknown";
  return name.data();
}

}  // namespace packtrain
