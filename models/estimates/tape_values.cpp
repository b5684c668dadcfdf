#include "models/estimates/tape_values.h"

#include <algorithm>

namespace packtrain {

TapeValues::TapeValues(const ShapeTape& tape, const RecomputePolicy& policy, bool has_copies)
    : tape_(tape), policy_(policy), has_copies_(has_copies), uses_(tape.num_values()) {
  const auto use_of = [&](Value value) -> Use& {
    return uses_.at(static_cast<std::size_t>(value.id));
  };
  const std::vector<Operator>& operators = tape.operators();
  for (std::size_t step = 0; step < operators.size(); ++step) {
    for (const Value output : operators[step].outputs) use_of(output).maker = step;
    for (const Value needed : operators[step].needs) ++use_of(needed).num_readers;
    for (const Value input : operators[step].inputs) use_of(input).forward_readers.push_back(step);
    if (const auto& residual = operators[step].residual) {
      use_of(*residual).forward_readers.push_back(step);
    }
    if (operators[step].memory) peaks_.push_back(step);
  }
}

bool TapeValues::is_saved(Value value) const {
  const ValueKind kind = tape_.kind(value);
  return kind == ValueKind::kInput || (use(value).num_readers > 0 && policy_.keeps(kind));
}

std::int64_t TapeValues::saved_bytes() const {
  std::int64_t total = 0;
  for (int id = 0; id < static_cast<int>(uses_.size()); ++id) {
    if (is_saved({id})) total += tape_.shape({id}).bytes();
  }
  return total;
}

// The backward of a layer without tensors. The rules are those of ExecutingTape.
class TapeValues::Backward {
 public:
  explicit Backward(const TapeValues& values)
      : values_(values), uses_(values.uses_), exists_(uses_.size()) {
    for (int id = 0; id < num_values(); ++id) exists_[at({id})] = values_.is_saved({id});
  }

  // Runs to where operator `step` has what it reads. Returns the bytes of all values then.
  std::int64_t run_to(std::size_t step) {
    const bool keeps = values_.has_copies_ && step != values_.peaks_.front();
    for (current_ = operators().size() - 1;; --current_) {
      for (const Value needed : operators()[current_].needs) {
        if (!maker_recomputes(needed)) make(needed);
      }
      if (current_ == step) return bytes();
      for (const Value needed : operators()[current_].needs) --uses_[at(needed)].num_readers;
      for (int id = 0; id < num_values(); ++id) {
        const bool was_read = values_.uses_[at({id})].num_readers > 0;
        if (keeps && was_read && uses_[at({id})].maker != step) continue;
        if (is_unread({id}) && !counts_with_maker({id})) exists_[at({id})] = false;
      }
    }
  }

 private:
  static std::size_t at(Value value) { return static_cast<std::size_t>(value.id); }
  int num_values() const { return static_cast<int>(uses_.size()); }
  const std::vector<Operator>& operators() const { return values_.tape_.operators(); }

  // A maker that recomputes its output does so in the memory of a gradient.
  bool maker_recomputes(Value value) const {
    const std::size_t maker = uses_[at(value)].maker;
    return maker != kNone && operators()[maker].recomputes_output;
  }

  // An output that was made for another operator, such as the MLP's activation for the norm after
  // the MLP. Memory peaks when that operator has the output's gradient as well. The plan has this
  // peak at the maker.
  bool counts_with_maker(Value value) const {
    return maker_recomputes(value) && uses_[at(value)].maker < current_ &&
           !values_.policy_.keeps(ValueKind::kProjection);
  }

  void make(Value value) {
    // A policy that keeps projections recomputes single values, which operators count themselves.
    if (exists_[at(value)] || values_.policy_.keeps(ValueKind::kProjection)) return;
    const Operator& step = operators()[uses_[at(value)].maker];
    for (const Value input : step.inputs) make(input);
    if (step.residual) make(*step.residual);
    for (const Value output : step.outputs) exists_[at(output)] = true;
    for (const Value output : step.outputs) {
      if (output != value) free_if_unread(output);
    }
    for (const Value input : step.inputs) free_if_unread(input);
    if (step.residual) free_if_unread(*step.residual);
  }

  // Only the forward of others reads it.
  bool is_unread(Value value) const {
    return exists_[at(value)] && uses_[at(value)].num_readers <= 0 &&
           values_.tape_.kind(value) != ValueKind::kInput;
  }

  void free_if_unread(Value value) {
    if (!is_unread(value)) return;
    const auto waits = [&](std::size_t reader) {
      return reader < current_ && !exists_[at(operators()[reader].outputs.front())];
    };
    if (std::ranges::none_of(uses_[at(value)].forward_readers, waits)) exists_[at(value)] = false;
  }

  std::int64_t bytes() const {
    std::int64_t total = 0;
    for (int id = 0; id < num_values(); ++id) {
      if (exists_[at({id})]) total += values_.tape_.shape({id}).bytes();
    }
    return total;
  }

  const TapeValues& values_;
  std::vector<Use> uses_;
  std::vector<bool> exists_;  // by value
  std::size_t current_ = 0;   // the operator whose backward runs
};

std::int64_t TapeValues::bytes_in_backward_of(std::size_t step) const {
  return Backward(*this).run_to(step);
}

}  // namespace packtrain
