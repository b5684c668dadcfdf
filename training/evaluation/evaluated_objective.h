// The objective of an evaluation of groups, in place of the next-token loss.
#pragma once

#include <cstdint>
#include <memory>

#include "collators/row_values.h"
#include "framework/config/config.h"
#include "framework/data/token_store.h"
#include "models/objectives/objective.h"
#include "training/steps/reference_pass.h"

namespace packtrain {

struct EvaluatedObjective {
  std::shared_ptr<const Objective> objective;  // null: the loss of next tokens
  Normalize normalize = Normalize::kTokens;    // of its next-token term
  // Tokens that the examples of a group begin with are computed once.
  bool share_prefixes = false;
  bool has_divergence = false;  // KTO: over the whole store
  std::uint64_t seed = 0;       // of the order of mismatched answers
  std::int64_t max_length = 0;  // of a mismatched example
};

// Where an evaluation finds the reference: one of the two, or none.
struct EvaluatedReference {
  ReferenceModel model = {};
  const RowValues* log_probs = nullptr;
};

EvaluatedObjective evaluated_objective(const Config& config);
// The loss of next tokens of each example. Pairs and rollouts share their prefix by
// batch.share_prefixes. Turns of a conversation share none here.
EvaluatedObjective next_tokens_of(const TokenStore& store, const Config& config);

}  // namespace packtrain
