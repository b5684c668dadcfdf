#include "framework/training/setup/training_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>
#include <vector>

#include "framework/data/joined_store.h"
#include "framework/support/error.h"

namespace packtrain {
namespace {

// The ledger and messages name an example by its store's path.
void check_distinct(const std::vector<TrainStore>& stores) {
  std::vector<std::filesystem::path> paths;
  for (const TrainStore& store : stores) {
    const auto path = std::filesystem::path(store.path + "/").lexically_normal();
    if (std::ranges::find(paths, path) != paths.end()) {
      throw Error(ErrorCategory::kConfig,
                  fmt::format("data.train names {} more than once", store.path),
                  "Name each store once, with `repeats` to train it several times an epoch.");
    }
    paths.push_back(path);
  }
}

}  // namespace

std::unique_ptr<TokenStore> open_training_store(const DataSection& data) {
  check_distinct(data.train);
  std::vector<StorePart> parts;
  for (const TrainStore& store : data.train) {
    parts.push_back({TokenStore::open(store.path), store.repeats, store.loss_weight});
  }
  return join_stores(std::move(parts));
}

std::string cut_to_nothing(const PlanLosses& losses, const TokenStore& store,
                           const DataSection& data) {
  if (losses.cut_to_nothing_examples == 0) return "";
  return fmt::format(
      "{} of {} examples are cut at data.max_length = {} before anything that is learned, and left "
      "out",
      losses.cut_to_nothing_examples, store.info().num_examples, data.max_length);
}

std::string beyond_positions(const TokenStore& store, const DataSection& data,
                             std::int64_t max_positions) {
  const std::int64_t longest =
      std::min<std::int64_t>(std::ranges::max(store.lengths()), data.max_length);
  if (max_positions == 0 || longest <= max_positions) return "";
  return fmt::format("examples have up to {} tokens, the model's config.json knows {} positions",
                     longest, max_positions);
}

}  // namespace packtrain
