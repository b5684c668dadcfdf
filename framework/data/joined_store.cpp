#include "framework/data/joined_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <mutex>
#include <optional>
#include <span>
#include <utility>

#include "framework/core/error.h"
#include "framework/core/hash.h"
#include "framework/data/joined_groups.h"
#include "framework/data/joined_part.h"
#include "framework/data/store_format.h"
#include "framework/data/store_parts.h"

namespace packtrain {
namespace {

class JoinedStore;

template <auto CountOf>
class JoinedCounts final : public CountSource {
 public:
  explicit JoinedCounts(const JoinedStore& store) : store_(store) {}
  std::size_t size() const override;
  std::int32_t count(std::size_t example) const override;
  void prefetch(std::size_t example) const override;
  std::optional<CountBounds> bounds() const override;

 private:
  const JoinedStore& store_;
};

class JoinedStore final : public TokenStore {
 public:
  explicit JoinedStore(std::vector<StorePart> parts);

  const StoreInfo& info() const override { return info_; }
  const std::string& folder() const override { return folder_; }
  ExampleCounts lengths() const override { return lengths_; }
  ExampleCounts num_loss_tokens() const override { return num_loss_tokens_; }
  std::span<const std::int32_t> input_ids(std::int64_t example) const override {
    const JoinedPart& part = part_of(example);
    return part.given.store->input_ids(part.local(example));
  }
  std::span<const std::uint8_t> loss_mask(std::int64_t example) const override {
    const JoinedPart& part = part_of(example);
    return part.given.store->loss_mask(part.local(example));
  }
  std::int16_t source(std::int64_t example) const override {
    const JoinedPart& part = part_of(example);
    return part.sources[static_cast<std::size_t>(part.given.store->source(part.local(example)))];
  }
  void check_tokens(std::int64_t example, std::int64_t begin, std::int64_t end) const override {
    const JoinedPart& part = part_of(example);
    part.given.store->check_tokens(part.local(example), begin, end);
  }
  std::string fingerprint() const override;
  void keep_fingerprint(const std::string& found) const override;
  std::string content_digest() const override;
  ExampleOrigin origin(std::int64_t example) const override {
    const JoinedPart& part = part_of(example);
    return {part.given.store->folder(), (example - part.first_example) / part.num_stored,
            part.local(example)};
  }
  std::vector<StoreUse> uses() const override;
  const LossWeights& loss_weights() const override { return loss_weights_; }
  TokenWeights token_weights(std::int64_t example) const override {
    const JoinedPart& part = part_of(example);
    return part.given.store->token_weights(part.local(example));
  }
  bool has_token_weights() const override {
    return std::ranges::any_of(
        parts_, [](const JoinedPart& part) { return part.given.store->has_token_weights(); });
  }

  const ExampleGroups* groups() const override { return info_.groups ? &groups_ : nullptr; }
  std::span<const float> token_column(std::int64_t example, std::size_t column) const override {
    const JoinedPart& part = part_of(example);
    return part.given.store->token_column(part.local(example), column);
  }

  std::span<const JoinedPart> parts() const { return parts_; }
  const JoinedPart& part_of(std::int64_t example) const;

 private:
  void append(StorePart given);
  void count_examples(const JoinedPart& part, const TokenStore& store);
  std::int16_t source_number(const std::string& name);

  std::string folder_;  // all folders, for messages
  StoreInfo info_;
  std::vector<JoinedPart> parts_;
  JoinedGroups groups_{parts_};
  JoinedCounts<&TokenStore::lengths> lengths_{*this};
  JoinedCounts<&TokenStore::num_loss_tokens> num_loss_tokens_{*this};
  LossWeights loss_weights_;
  mutable std::mutex mutex_;
  mutable std::string fingerprint_;  // empty: not computed yet
};

// The store of a part may be joined itself. It is then used once.
void add_runs(const JoinedPart& part, std::vector<LossWeights::Run>& runs) {
  const double weight = part.given.loss_weight;
  const LossWeights& own = part.given.store->loss_weights();
  if (own.are_all_one()) runs.push_back({part.first_example, weight});
  for (const LossWeights::Run& run : own.runs()) {
    runs.push_back({part.first_example + run.first_example, weight * run.weight});
  }
}

LossWeights weights_of(std::span<const JoinedPart> parts) {
  std::vector<LossWeights::Run> runs;
  for (const JoinedPart& part : parts) add_runs(part, runs);
  const bool differ = std::ranges::any_of(
      runs, [&](const LossWeights::Run& run) { return run.weight != runs.front().weight; });
  return differ ? LossWeights(std::move(runs)) : LossWeights();
}

JoinedStore::JoinedStore(std::vector<StorePart> parts) {
  check_counts(parts);
  const StoreInfo& named = check_same_tokens(parts);
  info_.vocab_size = named.vocab_size;
  info_.tokenizer_name = named.tokenizer_name;
  info_.tokenizer_hash = named.tokenizer_hash;
  info_.token_columns = named.token_columns;
  if (named.groups) info_.groups = GroupInfo{named.groups->kind, 0, true};
  for (StorePart& part : parts) append(std::move(part));
  loss_weights_ = weights_of(parts_);
}

void JoinedStore::append(StorePart given) {
  const StoreInfo& info = given.store->info();
  JoinedPart part = make_joined_part(std::move(given), info_.num_examples,
                                     info_.groups ? info_.groups->num_groups : 0);
  for (const std::string& name : info.sources) part.sources.push_back(source_number(name));
  if (info_.groups) {
    info_.groups->num_groups += part.num_groups;
    info_.groups->has_margins = info_.groups->has_margins && info.groups->has_margins;
  }
  count_examples(part, *part.given.store);
  info_.num_bad_lines += info.num_bad_lines;
  folder_ += (folder_.empty() ? "" : ", ") + part.given.store->folder();
  parts_.push_back(std::move(part));
}

void JoinedStore::count_examples(const JoinedPart& part, const TokenStore& store) {
  info_.num_tokens += part.num_whole_repeats() * store.info().num_tokens;
  info_.num_loss_tokens += part.num_whole_repeats() * store.info().num_loss_tokens;
  for (const std::uint32_t example : part.rest) {
    info_.num_tokens += store.lengths()[example];
    info_.num_loss_tokens += store.num_loss_tokens()[example];
  }
  info_.num_examples += part.num_examples;
}

template <auto CountOf>
std::size_t JoinedCounts<CountOf>::size() const {
  return static_cast<std::size_t>(store_.info().num_examples);
}

template <auto CountOf>
std::int32_t JoinedCounts<CountOf>::count(std::size_t example) const {
  const auto number = static_cast<std::int64_t>(example);
  const JoinedPart& part = store_.part_of(number);
  const ExampleCounts counts = (*part.given.store.*CountOf)();
  return counts[static_cast<std::size_t>(part.local(number))];
}

template <auto CountOf>
void JoinedCounts<CountOf>::prefetch(std::size_t example) const {
  const auto number = static_cast<std::int64_t>(example);
  const JoinedPart& part = store_.part_of(number);
  const ExampleCounts counts = (*part.given.store.*CountOf)();
  counts.prefetch(static_cast<std::size_t>(part.local(number)));
}

template <auto CountOf>
std::optional<CountBounds> JoinedCounts<CountOf>::bounds() const {
  std::optional<CountBounds> all;
  for (const JoinedPart& part : store_.parts()) {
    const auto bounds = (*part.given.store.*CountOf)().bounds();
    if (!bounds) return {};
    if (!all) all = bounds;
    all = CountBounds{std::min(all->least, bounds->least), std::max(all->most, bounds->most)};
  }
  return all;
}

std::vector<StoreUse> JoinedStore::uses() const {
  std::vector<StoreUse> uses;
  for (const JoinedPart& part : parts_) {
    uses.push_back(
        {part.given.store->folder(), part.first_example, part.num_examples, part.num_stored});
  }
  return uses;
}

std::int16_t JoinedStore::source_number(const std::string& name) {
  const auto known = std::ranges::find(info_.sources, name);
  const auto number = known - info_.sources.begin();
  if (known == info_.sources.end()) {
    if (info_.sources.size() == kMaxSources) {
      throw Error(ErrorCategory::kData,
                  fmt::format("data.train: the stores have more than {} sources", kMaxSources),
                  "Prepare files that belong together as one source.");
    }
    info_.sources.push_back(name);
  }
  return static_cast<std::int16_t>(number);
}

const JoinedPart& JoinedStore::part_of(std::int64_t example) const {
  if (example < 0 || example >= info_.num_examples) {
    throw Error(ErrorCategory::kInternal, fmt::format("{}: asked for example {} of {}", folder_,
                                                      example, info_.num_examples));
  }
  return part_with_example(parts_, example);
}

// The text for whole repeats must not change, because checkpoints contain its hash.
std::string times_of(const JoinedPart& part) {
  return part.rest.empty() ? fmt::format("{}", part.num_whole_repeats())
                           : fmt::format("{}/{}", part.num_examples, part.num_stored);
}

std::string JoinedStore::fingerprint() const {
  const std::lock_guard lock(mutex_);
  if (!fingerprint_.empty()) return fingerprint_;
  Hasher hasher;
  for (const JoinedPart& part : parts_) {
    const std::string text =
        fmt::format("{} x {}\n", part.given.store->fingerprint(), times_of(part));
    hasher.update(std::as_bytes(std::span(text)));
  }
  fingerprint_ = hasher.hex();
  return fingerprint_;
}

void JoinedStore::keep_fingerprint(const std::string& found) const {
  const std::lock_guard lock(mutex_);
  fingerprint_ = found;
}

std::string JoinedStore::content_digest() const {
  Hasher hasher;
  for (const JoinedPart& part : parts_) {
    const std::string digest = part.given.store->content_digest();
    if (digest.empty()) return {};
    const std::string text = fmt::format("{} x {}\n", digest, times_of(part));
    hasher.update(std::as_bytes(std::span(text)));
  }
  return hasher.hex();
}

}  // namespace

std::unique_ptr<TokenStore> join_stores(std::vector<StorePart> parts) {
  if (parts.empty()) throw Error(ErrorCategory::kInternal, "join_stores: no store is given");
  const auto is_used_once = [](const StorePart& part) {
    return num_used(part) == num_units_of(*part.store);
  };
  if (parts.size() == 1 && is_used_once(parts.front())) return std::move(parts.front().store);
  return std::make_unique<JoinedStore>(std::move(parts));
}

}  // namespace packtrain
