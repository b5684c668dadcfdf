#include "parallel/communicators/collective_path.h"

#include <fmt/format.h>

#include "framework/core/error.h"

namespace packtrain {
namespace {

// Earlier versions of 2.28 corrupt data in symmetric kernels (release notes of NCCL 2.28.7).
constexpr int kSoundSymmetricKernels = 22807;
// NCCL gathers by copy engines from this driver version on (ce_coll.cc of NCCL 2.28).
constexpr int kCopyEngineDriver = 12050;

std::string nccl_version_text(int version) {
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

std::string missing_for(CollectivePath path, const PathFacts& facts) {
  if (path == CollectivePath::kRing) return "";
  if (facts.nccl_version < kSoundSymmetricKernels) {
    return fmt::format("NCCL {} or newer, found {}", nccl_version_text(kSoundSymmetricKernels),
                       nccl_version_text(facts.nccl_version));
  }
  if (!facts.one_host) return "all ranks on one host";
  if (path == CollectivePath::kCopyEngine && facts.driver_version < kCopyEngineDriver) {
    return fmt::format("a driver for CUDA 12.5 or newer, found {}.{}", facts.driver_version / 1000,
                       facts.driver_version % 1000 / 10);
  }
  if (path == CollectivePath::kCopyEngine && !facts.cta_policy) {
    return "NCCL_CTA_POLICY unset or 2 in the environment";
  }
  if (facts.windows) return "";
  return "symmetric windows of NCCL: every GPU reaches every other's memory, and the environment "
         "does not switch that off (NCCL_WIN_ENABLE, NCCL_CUMEM_ENABLE, NCCL_P2P_DISABLE, "
         "NCCL_P2P_LEVEL)";
}

}  // namespace

const char* path_name(CollectivePath path) {
  switch (path) {
    case CollectivePath::kCopyEngine:
      return "copy_engine";
    case CollectivePath::kSymmetric:
      return "symmetric";
    case CollectivePath::kRing:
      break;
  }
  return "ring";
}

PathChoice choose_path(const CommunicatorOptions& options, const PathFacts& facts) {
  PathChoice choice{options.path, missing_for(options.path, facts)};
  if (choice.missing.empty()) return choice;
  if (options.required) {
    throw Error(ErrorCategory::kDevice,
                fmt::format("collectives were to take the path {}, which needs {}",
                            path_name(options.path), choice.missing),
                "parallel.gather_path and parallel.reduce_path: auto take what can be had.");
  }
  const bool symmetric = options.path == CollectivePath::kCopyEngine &&
                         missing_for(CollectivePath::kSymmetric, facts).empty();
  choice.path = symmetric ? CollectivePath::kSymmetric : CollectivePath::kRing;
  return choice;
}

void require_nccl_version(int found, int built) {
  if (found >= built) return;
  throw Error(ErrorCategory::kDevice,
              fmt::format("NCCL at run time is {}, built against {}", nccl_version_text(found),
                          nccl_version_text(built)),
              "Let LD_LIBRARY_PATH name the NCCL of the Python environment first.");
}

}  // namespace packtrain
