// Which values of a layer exist at a point of the step, by the operators on its shape tape.
// Backward runs them in reverse order. It frees a value after the last operator that reads it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "models/block/shape_tape.h"

namespace packtrain {

class TapeValues {
 public:
  // The tape must outlive this.
  TapeValues(const ShapeTape& tape, const RecomputePolicy& policy);

  // From forward to backward.
  bool is_saved(Value value) const;
  std::int64_t saved_bytes() const;
  // Bytes of the values that exist in the backward of an operator, those recomputed for it included
  // and gradients excluded. `step` is its number on the tape, and one at which memory may peak.
  std::int64_t bytes_in_backward_of(std::size_t step) const;

  // Numbers of the operators at which memory may peak, in the order of the tape.
  const std::vector<std::size_t>& peaks() const { return peaks_; }

 private:
  static constexpr std::size_t kNone = ~std::size_t{0};

  struct Use {
    std::size_t maker = kNone;         // kNone: the input
    std::size_t first_reader = kNone;  // whose backward is the last to read it; kNone: none does
  };

  const Use& use(Value value) const { return uses_.at(static_cast<std::size_t>(value.id)); }
  bool is_read(Value value) const { return use(value).first_reader != kNone; }
  bool is_first_branch(std::size_t step) const { return step == peaks_.front(); }
  // By value: whether the backward of operator `step` and of those after it recomputes it.
  std::vector<bool> recomputed_by(std::size_t step) const;
  void recompute(Value value, std::vector<bool>& made) const;
  // True if a backward after that of `step` recomputes the value for another one that it reads.
  // Otherwise an operator may recompute its output in the memory of its gradient.
  bool is_made_early(Value value, std::size_t step) const;
  bool is_freed(Value value, std::size_t step) const;

  const ShapeTape& tape_;
  RecomputePolicy policy_;
  std::vector<Use> uses_;  // by value
  std::vector<std::size_t> peaks_;
  std::optional<Value> stream_;  // what the first branch adds its output to
};

}  // namespace packtrain
