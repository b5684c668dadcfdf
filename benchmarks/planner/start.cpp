#include "benchmarks/planner/start.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <span>
#include <vector>

#include "benchmarks/planner/measure.h"
#include "framework/core/file.h"
#include "framework/core/random.h"
#include "framework/data/store_format.h"
#include "framework/data/store_writer.h"
#include "framework/data/token_store.h"
#include "samplers/planner.h"

namespace packtrain {
namespace {

constexpr std::int32_t kStartShortest = 16;
constexpr std::int32_t kStartLongest = 976;
constexpr std::int64_t kExamplesPerRank = 26;

struct Shard {
  std::vector<std::int64_t> offsets{0};
  std::vector<std::int32_t> labels;
};

Shard draw_shard(const CounterRandom& random, std::int64_t first, std::int64_t num_left) {
  Shard shard;
  while (shard.offsets.back() < StoreWriter::kMaxShardTokens &&
         std::ssize(shard.labels) < num_left) {
    const auto counter = static_cast<std::uint64_t>(first + std::ssize(shard.labels));
    const auto length = kStartShortest + static_cast<std::int32_t>(random.below(
                                             counter, kStartLongest - kStartShortest + 1));
    shard.offsets.push_back(shard.offsets.back() + length);
    shard.labels.push_back(length - 1);
  }
  return shard;
}

// Of the columns in the order in which prepare writes them; the third and fifth are holes.
void write_shard(const std::string& path, const Shard& shard) {
  const std::int64_t examples = std::ssize(shard.labels);
  const std::int64_t tokens = shard.offsets.back();
  std::string header = "{";
  std::int64_t end = 0;
  const auto add = [&](const char* name, const char* type, std::int64_t count, std::int64_t size) {
    header += fmt::format("{}\"{}\":{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}",
                          end == 0 ? "" : ",", name, type, count, end, end + count * size);
    end += count * size;
  };
  add("offsets", "I64", examples + 1, 8);
  add("num_loss_tokens", "I32", examples, 4);
  add("input_ids", "I32", tokens, 4);
  add("source", "I16", examples, 2);
  add("loss_mask", "U8", tokens, 1);
  header += '}';
  header.resize((header.size() + 7) / 8 * 8, ' ');
  const std::uint64_t length = header.size();
  OutputFile file(path, OutputFile::Mode::kCreate, ErrorCategory::kData);
  file.write(std::as_bytes(std::span(&length, 1)));
  file.write(header);
  file.write(std::as_bytes(std::span(shard.offsets)));
  file.write(std::as_bytes(std::span(shard.labels)));
  file.close();
  std::filesystem::resize_file(path, 8 + length + static_cast<std::uint64_t>(end));
}

}  // namespace

void write_sparse_store(const std::string& folder, std::int64_t num_examples) {
  std::filesystem::create_directories(folder);
  const CounterRandom random(0, "sparse store");
  StoreManifest manifest;
  manifest.info.vocab_size = 32000;
  manifest.info.sources = {"drawn"};
  while (manifest.info.num_examples < num_examples) {
    const Shard shard =
        draw_shard(random, manifest.info.num_examples, num_examples - manifest.info.num_examples);
    write_shard(folder + "/" + shard_name(manifest.shards.size()), shard);
    StoreShard said;
    said.num_examples = std::ssize(shard.labels);
    said.num_tokens = shard.offsets.back();
    said.lengths = CountBounds{kStartShortest, kStartLongest};
    said.labels = CountBounds{kStartShortest - 1, kStartLongest - 1};
    manifest.shards.push_back(said);
    manifest.info.num_examples += said.num_examples;
    manifest.info.num_tokens += said.num_tokens;
    manifest.info.num_loss_tokens += said.num_tokens - said.num_examples;
  }
  write_text_atomically(folder + "/" + kStoreManifestName, manifest_text(manifest),
                        ErrorCategory::kData);
}

nlohmann::ordered_json time_start(const std::string& folder, int num_ranks, bool hashes) {
  const double begin = wall_seconds();
  const auto store = TokenStore::open(folder);
  const double opened = wall_seconds();
  PlanOptions options;
  options.num_ranks = num_ranks;
  options.global_batch_size = kExamplesPerRank * num_ranks;
  const StoreLossCounter counter(*store);
  const Planner planner(store->lengths(), store->num_loss_tokens(), counter, options);
  const StepPlan plan = planner.plan(0);
  const double planned = wall_seconds();
  if (hashes) store->fingerprint();
  const double hashed = wall_seconds();
  return {{"num_examples", store->info().num_examples},
          {"num_ranks", num_ranks},
          {"num_steps", planner.num_steps(1)},
          {"tokens_of_first_step", plan.num_tokens},
          {"open_s", opened - begin},
          {"plan_s", planned - opened},
          {"hash_s", hashed - planned},
          {"own_mib", static_cast<double>(own_memory()) / (1 << 20)}};
}

}  // namespace packtrain
