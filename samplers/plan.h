// The step plan: which examples each rank trains in each micro-batch of an optimizer step.
#pragma once

#include <cstdint>
#include <vector>

namespace packtrain {

// A run of tokens of one example; the whole example unless a policy cut it.
struct Piece {
  std::int64_t example = 0;  // index in the token store
  std::int32_t begin = 0;    // first token
  std::int32_t length = 0;   // tokens
  // The token after the last one belongs to a following piece of the same example, so the last
  // token keeps its label and a split example trains as many labels as a whole one. False for the
  // last piece and for a truncated example: what was cut off is no label.
  bool continues = false;

  friend bool operator==(const Piece&, const Piece&) = default;
};

using MicroBatch = std::vector<Piece>;  // may be empty: the rank runs a dummy sequence

// [rank][micro-batch]; every rank has the same number of micro-batches.
using Assignment = std::vector<std::vector<MicroBatch>>;

struct StepPlan {
  std::int64_t step = 0;
  std::int64_t epoch = 0;
  Assignment ranks;  // ranks[r][m]: what rank r trains in micro-batch m
  // Of the whole optimizer step, over all ranks: no all-reduce needed for the loss denominator.
  std::int64_t num_examples = 0;
  std::int64_t num_tokens = 0;
  std::int64_t num_loss_tokens = 0;

  std::int64_t num_micro_batches() const {
    return ranks.empty() ? 0 : static_cast<std::int64_t>(ranks.front().size());
  }
};

}  // namespace packtrain
