#include "samplers/step_counts.h"

#include <span>

#include "framework/data/group_weight.h"
#include "samplers/group_units.h"

namespace packtrain {
namespace {

// Sum of mask weights over a piece's labels.
double label_weight(const Selection& selection, const LossCounter& counter, const Piece& piece) {
  if (!counter.has_token_weights()) return static_cast<double>(selection.num_loss_tokens(piece));
  const std::int32_t end = piece.begin + piece.length + (piece.continues ? 1 : 0);
  return counter.label_weight(piece.example, piece.begin + 1, end);
}

// The weight of an example is added where it begins, as its count is.
void add_weights(const Selection& selection, const LossCounter& counter,
                 std::span<const Piece> pieces, StepCounts& plan) {
  const LossWeights& weights = counter.loss_weights();
  if (weights.are_all_one() && !counter.has_token_weights()) {
    plan.example_weight = static_cast<double>(plan.num_examples);
    plan.loss_token_weight = static_cast<double>(plan.num_loss_tokens);
    return;
  }
  for (const Piece& piece : pieces) {
    const double weight = weights.of(piece.example);
    if (piece.begin == 0) plan.example_weight += weight;
    plan.loss_token_weight += weight * label_weight(selection, counter, piece);
  }
}

// Weights of the groups, and of the examples that next-token training would learn.
void add_group_weights(const TokenStore& store, const LossCounter& counter,
                       std::span<const Piece> pieces, StepCounts& plan) {
  const LossWeights& weights = counter.loss_weights();
  for (const Piece& piece : pieces) {
    const double weight = weights.of(piece.example);
    if (!piece.with_previous) {
      plan.group_weight += group_weight(store, store.groups()->group_of(piece.example));
    }
    if (piece.is_prefix || !is_learned(store.groups()->role(piece.example))) continue;
    const auto example = static_cast<std::size_t>(piece.example);
    plan.example_weight += weight;
    plan.loss_token_weight +=
        weight * (counter.has_token_weights()
                      ? counter.label_weight(piece.example, 1, store.lengths()[example])
                      : static_cast<double>(store.num_loss_tokens()[example]));
  }
}

}  // namespace

StepCounts step_counts(const Selection& selection, const LossCounter& counter,
                       const StepPieces& step) {
  StepCounts counts{step.num_examples, step.num_tokens, step.num_loss_tokens};
  if (selection.units() == nullptr) {
    add_weights(selection, counter, step.pieces, counts);
    return counts;
  }
  counts.num_groups = step.num_groups;
  add_group_weights(selection.units()->store(), counter, step.pieces, counts);
  return counts;
}

}  // namespace packtrain
