#include "training/setup/training_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "framework/config/adapters.h"
#include "framework/core/error.h"
#include "framework/data/joined_store.h"
#include "framework/data/mixture.h"
#include "framework/data/turn_store.h"
#include "parallel/communicators/collectives.h"
#include "training/setup/store_kind.h"

namespace packtrain {
namespace {

// The example loss log and messages identify an example by its store's path.
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

double wanted_part(const TrainStore& store) {
  return store.share ? *store.share : store.probability.value_or(0);
}

// Amount of training in each group: the tokens of its examples, or 1. A group with an example that
// is too long is dropped. Prefixes count in each example, so that sharing them changes no mixture.
std::vector<std::int32_t> amounts_of_groups(const TokenStore& store, const DataSection& data,
                                            bool in_tokens) {
  std::vector<std::int32_t> amounts;
  const ExampleCounts lengths = store.lengths();
  for (std::int64_t g = 0; g < store.info().groups->num_groups; ++g) {
    const ExampleGroup group = store.groups()->group(g);
    const auto first = static_cast<std::size_t>(group.first_example);
    std::int64_t tokens = 0;
    std::int64_t longest = 0;
    for (std::size_t e = first; e < first + static_cast<std::size_t>(group.num_examples); ++e) {
      tokens += lengths[e];
      longest = std::max<std::int64_t>(longest, lengths[e]);
    }
    constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
    const std::int64_t amount = in_tokens ? std::min(tokens, kMost) : 1;
    amounts.push_back(longest > data.max_length ? 0 : static_cast<std::int32_t>(amount));
  }
  return amounts;
}

// Amount of training in each example: its tokens after data.too_long, or 1.
std::vector<std::int32_t> amounts_of_examples(const TokenStore& store, const DataSection& data,
                                              bool in_tokens) {
  std::vector<std::int32_t> amounts;
  for (const std::int64_t length : store.lengths()) {
    const bool is_cut = length > data.max_length;
    const bool is_shortened = is_cut && data.too_long == TooLong::kTruncate;
    const std::int64_t tokens = is_shortened ? data.max_length : length;
    const bool is_dropped = is_cut && data.too_long == TooLong::kDrop;
    amounts.push_back(is_dropped ? 0 : static_cast<std::int32_t>(in_tokens ? tokens : 1));
  }
  return amounts;
}

std::vector<std::int32_t> amounts_of(const TokenStore& store, const DataSection& data,
                                     bool in_tokens) {
  std::vector<std::int32_t> amounts = store.groups() == nullptr
                                          ? amounts_of_examples(store, data, in_tokens)
                                          : amounts_of_groups(store, data, in_tokens);
  if (std::ranges::any_of(amounts, [](std::int32_t amount) { return amount > 0; })) return amounts;
  throw Error(ErrorCategory::kData,
              fmt::format("data.train: all {} longer than data.max_length = {}: it has nothing for "
                          "its share",
                          store.groups() == nullptr
                              ? fmt::format("examples of {} are", store.folder())
                              : fmt::format("groups of {} have an example", store.folder()),
                          data.max_length),
              "Raise data.max_length, or leave the store out.");
}

// Converts shares to repeats, whose counts are exact.
void resolve_shares(const DataSection& data, std::vector<StorePart>& parts) {
  const bool in_tokens = data.train.front().share.has_value();
  if (!in_tokens && !data.train.front().probability) return;
  double sum = 0;  // 1 except for rounding
  for (const TrainStore& train : data.train) sum += wanted_part(train);
  std::vector<MixturePart> mixture;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    mixture.push_back(
        {wanted_part(data.train[i]) / sum, amounts_of(*parts[i].store, data, in_tokens)});
  }
  const auto counts = mixture_counts(mixture, data.mixture_until == MixtureUntil::kAllExhausted);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto num_stored = static_cast<double>(mixture[i].amounts.size());
    parts[i].repeats = static_cast<double>(counts[i]) / num_stored;
  }
}

void match_turns_of(std::vector<StorePart>& parts) {
  std::vector<std::unique_ptr<TokenStore>*> stores;
  for (StorePart& part : parts) stores.push_back(&part.store);
  match_turns(std::move(stores));
}

}  // namespace

std::unique_ptr<TokenStore> open_training_store(const Config& config) {
  const DataSection& data = config.data;
  check_distinct(data.train);
  std::vector<StorePart> parts;
  for (const TrainStore& store : data.train) {
    parts.push_back({TokenStore::open(store.path), store.repeats, store.loss_weight});
    check_store_kind(*parts.back().store, config.objective, "data.train");
  }
  match_turns_of(parts);
  if (!data.train.empty()) resolve_shares(data, parts);
  return join_stores(std::move(parts));
}

TrainingStores open_training_stores(const Config& config) {
  TrainingStores stores{adapter_configs(config), nullptr, {}};
  std::vector<StorePart> parts;
  for (const Config& own : stores.configs) parts.push_back({open_training_store(own)});
  match_turns_of(parts);
  stores.all = join_stores(std::move(parts));
  if (stores.configs.size() == 1) return stores;
  std::vector<std::unique_ptr<TokenStore>*> own_stores;
  for (const Config& own : stores.configs) stores.own.push_back(open_training_store(own));
  for (auto& store : stores.own) own_stores.push_back(&store);
  match_turns(std::move(own_stores));
  return stores;
}

std::string share_fingerprint(const TokenStore& store, int local_rank, const std::string& host,
                              Communicator& control) {
  const bool reads = local_rank == 0 || control.rank() == 0;
  std::string found;
  std::optional<Error> failure;
  try {
    if (reads) found = store.fingerprint();
  } catch (const Error& error) {
    failure = error;
  }
  throw_first_rank_error(failure, control);
  const std::string first = broadcast_text(found, 0, control);
  const std::string first_host = broadcast_text(host, 0, control);
  if (reads && found != first) {
    failure = Error(ErrorCategory::kData,
                    fmt::format("{} on host {} has fingerprint {}, on host {} {}: these are "
                                "different examples",
                                store.folder(), host, found, first_host, first),
                    "Give all hosts the same store: a folder that they share, or whole copies of "
                    "one.");
  }
  throw_first_rank_error(failure, control);
  store.keep_fingerprint(first);
  return first;
}

std::string truncated_to_empty(const SelectionCounts& losses, const TokenStore& store,
                               const DataSection& data) {
  if (losses.truncated_to_empty_examples == 0) return "";
  return fmt::format(
      "{} of {} examples are cut at data.max_length = {} before anything that is learned, and left "
      "out",
      losses.truncated_to_empty_examples, store.info().num_examples, data.max_length);
}

namespace {

std::int64_t longest_example(const TokenStore& store, std::int64_t max_length) {
  const ExampleCounts lengths = store.lengths();
  const auto bounds = lengths.bounds();  // if bounds are known, no example is read
  return std::min<std::int64_t>(bounds ? bounds->most : std::ranges::max(lengths), max_length);
}

}  // namespace

void check_learned_positions(const TokenStore& store, std::int64_t max_length,
                             const DecoderConfig& decoder) {
  if (!decoder.learned_positions) return;
  const std::int64_t longest = longest_example(store, max_length);
  if (longest <= decoder.max_positions) return;
  throw Error(
      ErrorCategory::kData,
      fmt::format("token store {} has examples of up to {} tokens, the model has {} learned "
                  "positions",
                  store.folder(), longest, decoder.max_positions),
      "Lower data.max_length to that number, or prepare shorter examples.");
}

std::string exceeds_max_positions(const TokenStore& store, const DataSection& data,
                                  std::int64_t max_positions) {
  const std::int64_t longest = longest_example(store, data.max_length);
  if (max_positions == 0 || longest <= max_positions) return "";
  return fmt::format("examples have up to {} tokens, the model's config.json knows {} positions",
                     longest, max_positions);
}

}  // namespace packtrain
