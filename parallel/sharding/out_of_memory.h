// The device memory of a rank ran out in a step.
#pragma once

#include <cstdint>
#include <string>

#include "framework/core/error.h"

namespace packtrain {

class OutOfMemory : public Error {
 public:
  // `phase`: the work at that time, as text. `micro_batch`: its number in the step, with `num_rows`
  // rows, or -1 for work of none. `detail`: the allocator's message; only its first line is kept.
  OutOfMemory(const std::string& phase, int micro_batch, std::int64_t num_rows,
              const std::string& detail);

  int micro_batch() const { return micro_batch_; }

 private:
  int micro_batch_;
};

}  // namespace packtrain
