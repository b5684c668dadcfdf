#include "training/verification/perturbed_store.h"

#include <algorithm>

#include "framework/core/random.h"

namespace packtrain {

PerturbedStore::PerturbedStore(const TokenStore& store, std::int64_t example,
                               std::int64_t vocab_size)
    : PerturbedStore(store, example, 0, std::ssize(store.input_ids(example)), vocab_size) {}

PerturbedStore::PerturbedStore(const TokenStore& store, std::int64_t example, std::int64_t begin,
                               std::int64_t end, std::int64_t vocab_size)
    : store_(store), info_(store.info()), example_(example) {
  info_.vocab_size = vocab_size;
  const auto real = store.input_ids(example);
  ids_.assign(real.begin(), real.end());
  const CounterRandom random(0, "verification.perturbed", static_cast<std::uint64_t>(example));
  const auto num_others = static_cast<std::uint64_t>(std::max<std::int64_t>(vocab_size - 1, 1));
  for (auto t = static_cast<std::size_t>(begin); t < static_cast<std::size_t>(end); ++t) {
    const auto step = static_cast<std::int64_t>(1 + random.below(t, num_others));
    ids_[t] = static_cast<std::int32_t>((real[t] + step) % vocab_size);
  }
}

}  // namespace packtrain
