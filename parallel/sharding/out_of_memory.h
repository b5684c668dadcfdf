// A rank's device ran out of memory in a step.
#pragma once

#include <cstdint>
#include <string>

#include "framework/support/error.h"

namespace packtrain {

class OutOfMemory : public Error {
 public:
  // `phase`: what was being done, for people; `micro_batch`: of the step, with `num_rows` rows, or
  // -1 for none of them alone; `detail`: what the allocator says, of which the first line is kept.
  OutOfMemory(const std::string& phase, int micro_batch, std::int64_t num_rows,
              const std::string& detail);

  int micro_batch() const { return micro_batch_; }

 private:
  int micro_batch_;
};

}  // namespace packtrain
