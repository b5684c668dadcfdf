#include "parallel/communicators/nccl/path_agreement.h"

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <array>
#include <cstdlib>
#include <string>

#include "framework/core/hash.h"
#include "framework/device/cuda/check.h"
#include "parallel/communicators/host_name.h"
#include "parallel/communicators/nccl/check.h"

namespace packtrain {
namespace {

std::int64_t host_number() {
  const std::string name = host_name() + machine_id();
  const std::string digits = hash_bytes(std::as_bytes(std::span(name))).substr(0, 12);
  return std::stoll(digits, nullptr, 16);
}

bool leaves_cta_policy() {
  const char* chosen = std::getenv("NCCL_CTA_POLICY");
  return chosen == nullptr || chosen == std::to_string(NCCL_CTA_POLICY_ZERO);
}

}  // namespace

PathChoice agree_on_path(const CommunicatorOptions& options,
                         const std::function<void(std::span<std::int64_t>)>& least,
                         const std::function<bool()>& windows) {
  int nccl_version = 0;
  int driver_version = 0;
  PACKTRAIN_NCCL_CHECK(nullptr, ncclGetVersion(&nccl_version));
  PACKTRAIN_CUDA_CHECK(cudaDriverGetVersion(&driver_version));
  const std::int64_t host = host_number();
  std::array<std::int64_t, 5> values = {nccl_version, driver_version, leaves_cta_policy() ? 1 : 0,
                                        host, -host};
  least(values);
  PathFacts facts{.nccl_version = static_cast<int>(values[0]),
                  .driver_version = static_cast<int>(values[1]),
                  .one_host = values[3] == -values[4],
                  .cta_policy = values[2] == 1,
                  .windows = true};
  if (choose_path(options, facts).path == CollectivePath::kRing) return choose_path(options, facts);
  std::array<std::int64_t, 1> found = {windows() ? 1 : 0};
  least(found);
  facts.windows = found[0] == 1;
  return choose_path(options, facts);
}

}  // namespace packtrain
