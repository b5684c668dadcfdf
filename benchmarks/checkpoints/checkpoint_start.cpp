// What a start from a checkpoint of many ranks asks of the file system: counted, rank by rank, in
// one process.
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "benchmarks/guarded_main.h"
#include "framework/core/clock.h"
#include "framework/core/file.h"
#include "training/checkpoint/checkpoint.h"
#include "training/checkpoint/manifest.h"
#include "training/checkpoint/save_report.h"
#include "training/optimizers/adamw.h"

namespace packtrain {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kLayers = 4;
constexpr std::int64_t kHidden = 1024;  // 67 million parameters: 0.8 GB with moments
constexpr int kMaxReaders = 64;         // of more, some are counted, evenly

// A layer's parameters are consecutive and are cut into as many parts as there are ranks.
struct LayerParameter {
  const char* name;
  std::int64_t rows;
};

constexpr LayerParameter kParameters[] = {{"attention.qkv", 3 * kHidden},
                                          {"attention.out", kHidden},
                                          {"mlp.gate_up", 8 * kHidden},
                                          {"mlp.down", 4 * kHidden},
                                          {"norm", 1}};

std::vector<ShardView> shards_of(int rank, int num_ranks) {
  std::int64_t layer_numel = 0;
  for (const auto& [name, rows] : kParameters) layer_numel += rows * kHidden;
  const std::int64_t share = (layer_numel + num_ranks - 1) / num_ranks;
  std::vector<ShardView> shards;
  for (int layer = 0; layer < kLayers; ++layer) {
    std::int64_t offset = 0;
    for (const auto& [name, rows] : kParameters) {
      const std::int64_t numel = rows * kHidden;
      const std::int64_t begin = std::max<std::int64_t>(rank * share - offset, 0);
      const std::int64_t end = std::min((rank + 1) * share - offset, numel);
      offset += numel;
      if (begin >= end) continue;
      ShardView shard{fmt::format("layers.{}.{}", layer, name),
                      {rows, kHidden},
                      begin,
                      end - begin,
                      /*trainable=*/true,
                      {},
                      {}};
      shard.weight = at::zeros({shard.numel}, at::kFloat);
      for (const OptimizerStateSpec& spec : adamw_state(at::kFloat)) {
        shard.optimizer.push_back({spec.name, at::zeros({shard.numel}, spec.dtype)});
      }
      shards.push_back(std::move(shard));
    }
  }
  return shards;
}

// As the ranks save it, one after the other. Returns the seconds of rank 0's last part.
double save(const std::string& folder, int num_ranks) {
  make_folders(folder, ErrorCategory::kCheckpoint);
  std::vector<std::string> reports;
  int num_writers = num_ranks;  // the last ranks may own nothing
  while (shards_of(num_writers - 1, num_ranks).empty()) --num_writers;
  for (int rank = 0; rank < num_writers; ++rank) {
    const Writers writers{0, num_writers, rank};
    reports.push_back(write_own_file(folder, shards_of(rank, num_ranks), false, writers));
  }
  const auto begin = Clock::now();
  TrainingState state;
  state.step = 1;
  write_text_atomically(folder + "/manifest.json", manifest_text(manifest_of(state, reports)),
                        ErrorCategory::kCheckpoint);
  return seconds_since(begin);
}

struct Start {
  std::int64_t most_opens = 0;
  double bytes = 0;   // of all ranks
  double most_s = 0;  // of a rank
};

Start start(const std::string& folder, int num_ranks) {
  const int num_counted = std::min(num_ranks, kMaxReaders);
  Start all;
  for (int reader = 0; reader < num_counted; ++reader) {
    const auto shards = shards_of(reader * (num_ranks / num_counted), num_ranks);
    const auto begin = Clock::now();
    const ReadCounts counts = load_checkpoint(folder, shards, true);
    all.most_s = std::max(all.most_s, seconds_since(begin));
    all.most_opens = std::max(all.most_opens, counts.num_opens);
    all.bytes += static_cast<double>(counts.num_bytes) * num_ranks / num_counted;
  }
  return all;
}

int run(int argc, char** argv) {
  const std::string root = argc > 1 ? argv[1] : std::filesystem::temp_directory_path().string();
  fmt::print(
      "| saved by | started by | opens of a rank at most | bytes read / saved | s of a rank at "
      "most "
      "| manifest, KB | rank 0 makes it in ms |\n|---|---|---|---|---|---|---|\n");
  for (const int num_ranks : {8, 64, 512, 4096}) {
    const std::string folder = fmt::format("{}/checkpoint-start-{}/step-1", root, num_ranks);
    const double manifest_s = save(folder, num_ranks);
    double saved = 0;
    for (const CheckpointFile& file : read_checkpoint_manifest(folder).files) {
      saved += static_cast<double>(file.size);
    }
    for (const int readers : {num_ranks / 8, num_ranks, num_ranks * 8}) {
      const Start counted = start(folder, readers);
      fmt::print("| {} | {} | {} | {:.2f} | {:.3f} | {} | {:.1f} |\n", num_ranks, readers,
                 counted.most_opens, counted.bytes / saved, counted.most_s,
                 std::filesystem::file_size(folder + "/manifest.json") / 1000, 1e3 * manifest_s);
      std::fflush(stdout);
    }
    std::filesystem::remove_all(std::filesystem::path(folder).parent_path());
  }
  return 0;
}

}  // namespace
}  // namespace packtrain

int main(int argc, char** argv) {
  return packtrain::guarded_main("checkpoint_benchmark", packtrain::run, argc, argv);
}
