#include "training/verification/perturbed_store.h"

#include <algorithm>

#include "framework/core/random.h"

namespace packtrain {

PerturbedStore::PerturbedStore(const TokenStore& store, std::int64_t example,
                               std::int64_t vocab_size)
    : store_(store), info_(store.info()), example_(example) {
  info_.vocab_size = vocab_size;
  const auto real = store.input_ids(example);
  const CounterRandom random(0, "verification.perturbed", static_cast<std::uint64_t>(example));
  const auto num_others = static_cast<std::uint64_t>(std::max<std::int64_t>(vocab_size - 1, 1));
  ids_.reserve(real.size());
  for (std::size_t t = 0; t < real.size(); ++t) {
    const auto step = static_cast<std::int64_t>(1 + random.below(t, num_others));
    ids_.push_back(static_cast<std::int32_t>((real[t] + step) % vocab_size));
  }
}

}  // namespace packtrain
