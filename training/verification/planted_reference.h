// Log-probabilities of a reference that no model computed. `verify` trains with them, so that a
// value at the row of another label changes losses and gradients.
#pragma once

#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "collators/row_values.h"
#include "framework/data/token_store.h"

namespace packtrain {

// The divergence of the step, in nats, where the loss has one.
inline constexpr double kPlantedDivergence = 0.2;

class PlantedReference final : public RowValues {
 public:
  // `store` must outlive it.
  explicit PlantedReference(const TokenStore& store) : store_(store) {}

  // Values from -8 to 0, a pure function of the example and the number of the label.
  std::span<const float> of(std::int64_t example) const override;

 private:
  const TokenStore& store_;
  mutable std::mutex mutex_;
  mutable std::unordered_map<std::int64_t, std::vector<float>> values_;
};

}  // namespace packtrain
