// Which values of a layer exist at a point of the step, by the operators on its shape tape. An
// ExecutingTape makes and frees values by the same rules.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "models/block/shape_tape.h"

namespace packtrain {

class TapeValues {
 public:
  // The tape must outlive this. `has_copies`: of the hidden state (DecoderConfig::altup). Their
  // gradients take the place of the values that the operators after the MLP have read, which are
  // counted instead.
  TapeValues(const ShapeTape& tape, const RecomputePolicy& policy, bool has_copies = false);

  // From forward to backward.
  bool is_saved(Value value) const;
  std::int64_t saved_bytes() const;
  // Bytes of the values that exist in the backward of an operator, those recomputed for it included
  // and gradients excluded. `step` is its number on the tape, and one at which memory may peak.
  std::int64_t bytes_in_backward_of(std::size_t step) const;

  // Numbers of the operators at which memory may peak, in the order of the tape.
  const std::vector<std::size_t>& peaks() const { return peaks_; }

 private:
  class Backward;

  static constexpr std::size_t kNone = ~std::size_t{0};

  struct Use {
    std::size_t maker = kNone;  // operator; kNone: the input
    int num_readers = 0;        // backwards that read it
    std::vector<std::size_t> forward_readers = {};
  };

  const Use& use(Value value) const { return uses_.at(static_cast<std::size_t>(value.id)); }

  const ShapeTape& tape_;
  RecomputePolicy policy_;
  bool has_copies_;
  std::vector<Use> uses_;  // by value
  std::vector<std::size_t> peaks_;
};

}  // namespace packtrain
