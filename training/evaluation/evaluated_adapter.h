// Which of several adapters a batch of an evaluation is of.
#pragma once

#include <cstddef>

#include "models/block/batch.h"

namespace packtrain {

struct EvaluatedAdapter {
  std::size_t number = 0;
  std::size_t num_adapters = 1;
};

// Gives all rows to the adapter. Nothing is done where there is only one.
void set_adapter(const EvaluatedAdapter& adapter, DeviceBatch& batch);

}  // namespace packtrain
