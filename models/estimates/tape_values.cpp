#include "models/estimates/tape_values.h"

#include <algorithm>

namespace packtrain {

TapeValues::TapeValues(const ShapeTape& tape, const RecomputePolicy& policy)
    : tape_(tape), policy_(policy), uses_(tape.num_values()) {
  const auto use_of = [&](Value value) -> Use& {
    return uses_.at(static_cast<std::size_t>(value.id));
  };
  const std::vector<Operator>& operators = tape.operators();
  for (std::size_t step = 0; step < operators.size(); ++step) {
    for (const Value output : operators[step].outputs) use_of(output).maker = step;
    for (const Value needed : operators[step].needs) {
      use_of(needed).first_reader = std::min(use_of(needed).first_reader, step);
    }
    if (!peaks_.empty() && !stream_) stream_ = operators[step].residual;
    if (operators[step].memory) peaks_.push_back(step);
  }
}

bool TapeValues::is_saved(Value value) const {
  const ValueKind kind = tape_.kind(value);
  return kind == ValueKind::kInput || (is_read(value) && policy_.keeps(kind));
}

std::int64_t TapeValues::saved_bytes() const {
  std::int64_t total = 0;
  for (int id = 0; id < static_cast<int>(uses_.size()); ++id) {
    if (is_saved({id})) total += tape_.shape({id}).bytes();
  }
  return total;
}

void TapeValues::recompute(Value value, std::vector<bool>& made) const {
  const std::size_t maker = use(value).maker;
  if (maker == kNone || made[static_cast<std::size_t>(value.id)] || is_saved(value)) return;
  const Operator& step = tape_.operators()[maker];
  for (const Value output : step.outputs) made[static_cast<std::size_t>(output.id)] = true;
  for (const Value input : step.inputs) recompute(input, made);
  if (step.residual) recompute(*step.residual, made);
}

std::vector<bool> TapeValues::recomputed_by(std::size_t step) const {
  std::vector<bool> made(uses_.size(), false);
  // A policy that keeps projections recomputes single values, which operators count themselves.
  if (policy_.keeps(ValueKind::kProjection)) return made;
  const std::vector<Operator>& operators = tape_.operators();
  for (std::size_t later = step; later < operators.size(); ++later) {
    for (const Value needed : operators[later].needs) recompute(needed, made);
  }
  // The plan counts what was recorded before as recomputed too. Where branches are parallel, the
  // backward of the second one does not need the first.
  std::size_t begin = operators.size();
  for (std::size_t id = 0; id < made.size(); ++id) {
    const std::size_t maker = uses_[id].maker;
    if (made[id] && maker > peaks_.front()) begin = std::min(begin, maker);
  }
  for (std::size_t id = 0; id < made.size(); ++id) {
    const std::size_t maker = uses_[id].maker;
    if (maker != kNone && maker < begin) made[id] = true;
  }
  return made;
}

bool TapeValues::is_made_early(Value value, std::size_t step) const {
  if (policy_.keeps(ValueKind::kProjection)) return false;
  std::vector<bool> made(uses_.size(), false);
  for (std::size_t later = step + 1; later < tape_.operators().size(); ++later) {
    for (const Value needed : tape_.operators()[later].needs) {
      if (needed != value) recompute(needed, made);
    }
  }
  return made[static_cast<std::size_t>(value.id)];
}

bool TapeValues::is_freed(Value value, std::size_t step) const {
  if (!is_read(value) || use(value).first_reader <= step) return false;
  if (value == stream_) return false;
  if (is_first_branch(step)) return true;
  // The plan counts all values of the last branch until its backward ends, except an operator's
  // own outputs.
  return use(value).maker == step && !is_made_early(value, step);
}

std::int64_t TapeValues::bytes_in_backward_of(std::size_t step) const {
  const std::vector<bool> recomputed = recomputed_by(step);
  std::int64_t total = 0;
  for (int id = 0; id < static_cast<int>(uses_.size()); ++id) {
    const Value value{id};
    const bool stays = value == stream_ && !policy_.keeps(ValueKind::kProjection);
    const bool is_recomputed = is_read(value) && recomputed[static_cast<std::size_t>(id)];
    const bool is_made = is_saved(value) || is_recomputed || stays;
    if (is_made && !is_freed(value, step)) total += tape_.shape(value).bytes();
  }
  return total;
}

}  // namespace packtrain
