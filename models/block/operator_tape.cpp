#include "models/block/operator_tape.h"

namespace packtrain {

RecomputePolicy RecomputePolicy::none() {
  return RecomputePolicy(~bit(ValueKind::kScaled));
}

RecomputePolicy RecomputePolicy::selective() {
  return RecomputePolicy(none().kept_ &
                         ~(bit(ValueKind::kNormOutput) | bit(ValueKind::kActivationOutput)));
}

RecomputePolicy RecomputePolicy::full() {
  return RecomputePolicy(bit(ValueKind::kInput) | bit(ValueKind::kStatistics));
}

Value OperatorTape::value(ValueKind kind, std::string_view name, const ValueShape& shape) {
  values_.push_back({kind, std::string(name), shape});
  return {static_cast<int>(values_.size()) - 1};
}

}  // namespace packtrain
