// The largest micro-batch that a fixed number of examples can make.
#pragma once

#include <cstdint>

#include "samplers/options.h"
#include "samplers/selection.h"

namespace packtrain {

struct LongestPieces {
  std::int64_t count = 0;       // pieces in the fullest micro-batch of micro_batch_size
  std::int64_t num_tokens = 0;  // of the `count` longest pieces together
  std::int32_t longest = 0;     // tokens of the longest of them
  ExampleIndex example = 0;     // the example of the longest piece
};

// A micro-batch has at most as many pieces as the store. Without splitting it has at most as many
// as the step has examples. O(examples log count), memory: `count` numbers.
LongestPieces longest_pieces(const Selection& selection, const PlanOptions& options);

}  // namespace packtrain
