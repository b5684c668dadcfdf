// The inputs of a plan other than the examples' lengths and the step.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "framework/config/config.h"
#include "framework/data/attention_segment.h"
#include "samplers/attention_span.h"

namespace packtrain {

class PlanFile;  // plan_file/plan_file.h

// Cost of a micro-batch on one rank: constant + sum over segments of linear * rows + quadratic *
// squares.
struct CostModel {
  double linear = 1.0;
  double quadratic = 0.0;
  double constant = 0.0;
  AttentionSpan span = {};

  friend bool operator==(const CostModel&, const CostModel&) = default;
  double of_segment(const AttentionSegment& segment) const {
    const auto num_rows = static_cast<double>(segment.rows.size());
    return linear * num_rows + quadratic * span.squares(segment);
  }
  // The cost of an example that is one sequence.
  double of_example(std::int32_t length) const { return of_segment({{0, length}, {}}); }
};

struct PlanOptions {
  Strategy strategy = kDefaultStrategy;
  OrderKind order = OrderKind::kRandom;
  int order_version = 2;  // order.h: kOrderVersion, or the version that a resumed run began with
  TooLong too_long = TooLong::kError;
  std::int64_t max_length = 4096;
  // Size of an optimizer step in examples or groups, or in tokens; the other is 0.
  std::int64_t global_batch_size = 64;
  std::int64_t global_batch_tokens = 0;
  std::int64_t micro_batch_size = 4;     // padding and padding_free
  bool cross_example_attention = false;  // fixed_length: a row is one sequence
  std::int64_t packing_window = 4096;    // multipack: every example moves fewer positions than this
  // Counts real tokens, with strategy padding also its padding. A collator that rounds rows up
  // stays within it when it is a multiple of the rounding.
  std::int64_t max_tokens_per_micro_batch = 16384;
  bool share_prefixes = true;  // of groups: tokens that they begin with are computed once
  std::uint64_t seed = 0;
  std::shared_ptr<const PlanFile> plan_file;  // file
  int num_ranks = 1;                          // those that train different micro-batches of a step
  CostModel cost;
  // [num_ranks] A rank takes cost / speed; > 0, mean 1. Empty: all ranks have the same speed.
  std::vector<double> speeds;
};

// How steps are assigned to ranks, from one step on. It is determined when a run starts or resumes.
// The examples of a step do not depend on it.
struct PlanLayout {
  std::int64_t from_step = 0;
  std::int64_t max_tokens_per_micro_batch = 16384;
  CostModel cost;
  std::vector<double> speeds;  // as in PlanOptions

  friend bool operator==(const PlanLayout&, const PlanLayout&) = default;
};

}  // namespace packtrain
