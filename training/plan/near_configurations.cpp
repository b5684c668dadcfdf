#include "training/plan/near_configurations.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <utility>

#include "collators/batch_builder.h"
#include "framework/config/objective_settings.h"
#include "framework/core/math.h"
#include "framework/core/units.h"
#include "training/plan/memory_plan.h"

namespace packtrain {
namespace {

struct Change {
  std::string settings;
  bool changes_numbers = false;
  std::function<void(FitInput&)> apply;
};

// Changes of one kind, the nearest first. Each needs less memory than the one before.
using Alternatives = std::vector<Change>;

constexpr int kMaxTimesRanks = 64;
constexpr std::int64_t kShortest = 128;  // tokens of an example

int sharing_ranks(const MemoryRanks& ranks) {
  return ranks.shard_size > 0 ? ranks.shard_size : ranks.num_ranks;
}

// Micro-batches of one example.
std::int64_t least_tokens(const Config& config) {
  return round_up(config.data.max_length, CollatorOptions{}.row_multiple);
}

// Where the budget stays as it is: one that holds an example. Only packs are made of it.
void add_fewer_tokens(const Config& config, std::vector<Alternatives>& changes) {
  const auto given = config.batch.max_tokens_per_micro_batch;
  const std::int64_t least = least_tokens(config);
  const bool stays = given && token_choices(config, 1).size() == 1;
  if (!stays || *given <= least) return;
  const StrategyTraits& strategy = traits_of(config.batch.strategy);
  const char* size = strategy.has_micro_batch_size ? "batch.micro_batch_size=1 " : "";
  changes.push_back(
      {{fmt::format("{}batch.max_tokens_per_micro_batch={}", size, least), strategy.has_packs,
        [least](FitInput& input) { input.config.batch.max_tokens_per_micro_batch = least; }}});
}

// Settings that cost memory and change no number.
void add_free_changes(const Config& config, const MemoryRanks& ranks,
                      std::vector<Alternatives>& changes) {
  if (config.memory.recompute && *config.memory.recompute != Recompute::kFull) {
    changes.push_back({{"memory.recompute=auto", false,
                        [](FitInput& input) { input.config.memory.recompute.reset(); }}});
  }
  if (config.memory.offload && *config.memory.offload != Offload::kActivationsAndOptimizer) {
    changes.push_back({{"memory.offload=auto", false,
                        [](FitInput& input) { input.config.memory.offload.reset(); }}});
  }
  if (sharing_ranks(ranks) == 1) return;
  if (config.parallel.gather_slots.value_or(0) > kMinGatherSlots) {
    changes.push_back({{"parallel.gather_slots=auto", false,
                        [](FitInput& input) { input.config.parallel.gather_slots.reset(); }}});
  }
  if (config.parallel.accumulate == Accumulate::kLocal) {
    changes.push_back({{"parallel.accumulate=auto", false,
                        [](FitInput& input) { input.config.parallel.accumulate.reset(); }}});
  }
  if (config.parallel.zero_stage == 2) {
    changes.push_back({{"parallel.zero_stage=3", false,
                        [](FitInput& input) { input.config.parallel.zero_stage = 3; }}});
  } else if (config.parallel.resident_embeddings) {
    changes.push_back({{"parallel.resident_embeddings=false", false, [](FitInput& input) {
                          input.config.parallel.resident_embeddings = false;
                        }}});
  }
}

// Larger shard groups, then more ranks.
Alternatives sharing_changes(const MemoryRanks& ranks) {
  Alternatives changes;
  const int now = sharing_ranks(ranks);
  for (int size = 2 * now; size <= ranks.num_ranks; size += now) {
    if (ranks.num_ranks % size != 0) continue;
    changes.push_back({fmt::format("parallel.shard_size={}", size), false,
                       [size](FitInput& input) { input.ranks.shard_size = size; }});
  }
  for (int times = 2; times <= kMaxTimesRanks; times *= 2) {
    const int size = times * ranks.num_ranks;
    changes.push_back(
        {fmt::format("one copy of the state on {} ranks", size), false,
         [size](FitInput& input) { input.ranks.num_ranks = input.ranks.shard_size = size; }});
  }
  return changes;
}

void add_changes_of_numbers(const Config& config, std::vector<Alternatives>& changes) {
  if (config.optimizer.moments == Moments::kFloat32) {
    changes.push_back({{"optimizer.moments=bf16", true, [](FitInput& input) {
                          input.config.optimizer.moments = Moments::kBFloat16;
                        }}});
  }
  if (config.precision.compute == Precision::kFloat32) {
    changes.push_back({{"precision.compute=bf16", true, [](FitInput& input) {
                          input.config.precision.compute = Precision::kBFloat16;
                        }}});
  }
  Alternatives lengths;
  for (std::int64_t length = config.data.max_length / 2; length >= kShortest; length /= 2) {
    // Groups are never cut.
    const char* way = trains_groups(config.objective) ? "drop" : "truncate";
    lengths.push_back({fmt::format("data.max_length={} data.too_long={}", length, way), true,
                       [length](FitInput& input) { input.config.data.max_length = length; }});
  }
  changes.push_back(std::move(lengths));
}

class ConfigurationSearch {
 public:
  ConfigurationSearch(const FitInput& input, std::size_t count) : input_(input), count_(count) {}

  // The place of the first of the alternatives that fits alone, or their number.
  std::size_t try_alone(const Alternatives& changes, std::size_t begin = 0) {
    for (std::size_t i = begin; i < changes.size() && !is_done(); ++i) {
      if (add({&changes[i]})) return i;
    }
    return changes.size();
  }

  // The nearest pair of the first `num_a` and `num_b` alternatives. None of them fits alone.
  void try_pairs(const Alternatives& a, std::size_t num_a, const Alternatives& b,
                 std::size_t num_b) {
    for (std::size_t i = 0; i < num_a; ++i) {
      for (std::size_t j = 0; j < num_b && !is_done(); ++j) {
        if (add({&a[i], &b[j]})) return;
      }
    }
  }

  bool is_done() const { return found_.size() >= count_; }
  std::vector<NearConfiguration> take() { return std::move(found_); }

 private:
  bool add(std::initializer_list<const Change*> changes) {
    FitInput changed = input_;
    NearConfiguration near;
    for (const Change* change : changes) {
      change->apply(changed);
      near.settings += (near.settings.empty() ? "" : " ") + change->settings;
      near.changes_numbers = near.changes_numbers || change->changes_numbers;
    }
    near.bytes = least_memory(changed).bytes;
    if (near.bytes > input_.limit.bytes) return false;
    found_.push_back(std::move(near));
    return true;
  }

  const FitInput& input_;
  std::size_t count_;
  std::vector<NearConfiguration> found_;
};

}  // namespace

std::vector<NearConfiguration> near_configurations(const FitInput& input, std::size_t count) {
  std::vector<Alternatives> changes;
  add_free_changes(input.config, input.ranks, changes);
  add_fewer_tokens(input.config, changes);
  changes.push_back(sharing_changes(input.ranks));
  add_changes_of_numbers(input.config, changes);
  ConfigurationSearch search(input, count);
  std::vector<std::size_t> too_little;  // alternatives that do not fit alone
  for (const Alternatives& each : changes) too_little.push_back(search.try_alone(each));
  for (std::size_t a = 0; a < changes.size(); ++a) {
    for (std::size_t b = a + 1; b < changes.size(); ++b) {
      search.try_pairs(changes[a], too_little[a], changes[b], too_little[b]);
    }
  }
  // Some alternatives change more than the first of their kind that fits.
  for (std::size_t kind = 0; kind < changes.size(); ++kind) {
    for (std::size_t i = too_little[kind] + 1; i < changes[kind].size(); ++i) {
      i = search.try_alone(changes[kind], i);
    }
  }
  return search.take();
}

std::vector<std::string> near_configuration_lines(const FitInput& input) {
  std::vector<std::string> lines;
  for (const NearConfiguration& near : near_configurations(input)) {
    lines.push_back(fmt::format("{} takes {:.4g} GiB{}", near.settings, to_gibibytes(near.bytes),
                                near.changes_numbers ? " (changes numbers)" : ""));
  }
  return lines;
}

Error no_fit(const FitInput& input) {
  const FitCandidate least = least_memory(input);
  const std::vector<std::string> lines = near_configuration_lines(input);
  return {ErrorCategory::kDevice,
          fmt::format("memory.fit finds no settings whose memory fits: the least, {}, needs {:.4g} "
                      "GiB of a rank's memory, and it may use {:.4g} GiB ({})\n{}",
                      settings_text(least.settings), to_gibibytes(least.bytes),
                      to_gibibytes(input.limit.bytes), input.limit.basis,
                      memory_table(plan_with(input, least.settings), 0)),
          fmt::format("{}{}{}memory.fit: off starts the run although the plan does not fit.",
                      lines.empty() ? "" : "What fits:\n    ", fmt::join(lines, "\n    "),
                      lines.empty() ? "" : "\n  ")};
}

}  // namespace packtrain
