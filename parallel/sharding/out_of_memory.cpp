#include "parallel/sharding/out_of_memory.h"

namespace packtrain {
namespace {

std::string describe(const std::string& phase, int micro_batch, std::int64_t num_rows,
                     const std::string& detail) {
  std::string text = "out of memory in " + phase;
  if (micro_batch >= 0) text += ", a micro-batch of " + std::to_string(num_rows) + " rows";
  return text + ": " + detail.substr(0, detail.find('\n'));
}

}  // namespace

OutOfMemory::OutOfMemory(const std::string& phase, int micro_batch, std::int64_t num_rows,
                         const std::string& detail)
    : Error(ErrorCategory::kDevice, describe(phase, micro_batch, num_rows, detail),
            "Lower batch.max_tokens_per_micro_batch, set memory.recompute: selective or full, or "
            "let more ranks share the model's state (parallel.shard_size, or more ranks); "
            "`packtrain plan` prints what each part needs."),
      micro_batch_(micro_batch) {}

}  // namespace packtrain
