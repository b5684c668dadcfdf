#include "models/ops/attention/cudnn/version.h"

#include <string>

#include "framework/core/error.h"

namespace packtrain {
namespace {

const char* fault_of(std::int64_t version) {
  if (version < 90600) return "it has no grouped queries in packed sequences";
  if (version == 91000 || version == 91001) return "its attention is known to be wrong";
  if (version >= 100000) return "its interface is another";
  return nullptr;
}

}  // namespace

void check_cudnn_version(std::int64_t version) {
  const char* fault = fault_of(version);
  if (fault == nullptr) return;
  const std::string name = std::to_string(version / 10000) + "." +
                           std::to_string(version / 100 % 100) + "." +
                           std::to_string(version % 100);
  throw Error(ErrorCategory::kDevice,
              "attention: the loaded libcudnn.so.9 is cuDNN " + name + ", but " + fault +
                  "; wanted 9.6 or later of 9, not 9.10.0 or 9.10.1",
              "Put the cuDNN of the torch wheel (site-packages/nvidia/cudnn/lib) first on "
              "LD_LIBRARY_PATH.");
}

}  // namespace packtrain
