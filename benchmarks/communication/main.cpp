// All-gathers and reduce-scatters by path and size: alone, and during matrix products.
#include <ATen/ops/empty.h>
#include <ATen/ops/randn.h>
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "benchmarks/communication/collective_benchmark.h"
#include "framework/core/error.h"
#include "framework/device/device.h"
#include "parallel/communicators/collective_path.h"
#include "parallel/communicators/nccl/rank_sum.h"

namespace packtrain {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20U;
constexpr std::size_t kLargest = 512 * kMiB;  // of the whole buffer
constexpr std::size_t kContest = 64 * kMiB;   // from this size on during products too
constexpr std::size_t kNumBuffers = 2;        // used in turn

struct Case {
  const char* name = "";
  bool gathers = true;
  DataType type = DataType::kBFloat16;
  CommunicatorOptions options = {};
};

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const auto path :
       {CollectivePath::kRing, CollectivePath::kSymmetric, CollectivePath::kCopyEngine}) {
    cases.push_back({"all-gather", true, DataType::kBFloat16, {path, true, 0}});
  }
  for (const auto type : {DataType::kBFloat16, DataType::kFloat32}) {
    cases.push_back({"reduce-scatter", false, type, {CollectivePath::kCopyEngine, true, 0}});
    for (const auto path : {CollectivePath::kRing, CollectivePath::kSymmetric}) {
      for (const int max_ctas : {0, 16, 8}) {
        cases.push_back({"reduce-scatter", false, type, {path, true, max_ctas}});
      }
    }
  }
  return cases;
}

void print(const World& world, const std::string& line) {
  if (world.rank() != 0) return;
  std::puts(line.c_str());
  std::fflush(stdout);
}

std::string overlap_columns(const CollectiveTiming& result) {
  return fmt::format(" {:.3f} | {:.3f} | {:.3f} |", result.overlapped_ms, result.slow_down,
                     result.lost_ms());
}

std::string row(const Case& c, std::size_t bytes, int num_ranks, const CollectiveTiming& result) {
  const double share = static_cast<double>(num_ranks - 1) / num_ranks;
  const std::string ctas =
      c.options.max_ctas > 0 ? fmt::format("{}", c.options.max_ctas) : std::string("-");
  std::string text = fmt::format(
      "| {} | {} | {} | {} | {} | {:.3f} | {:.0f} |", c.name, path_name(c.options.path), ctas,
      c.type == DataType::kFloat32 ? "fp32" : "bf16", bytes / kMiB, result.isolated_ms,
      share * static_cast<double>(bytes) / result.isolated_ms / 1e6);
  if (bytes < kContest) return text + " | | |";
  return text + overlap_columns(result);
}

void measure(const Case& c, World& world, CollectiveBenchmark& benchmark) {
  const auto communicator = world.connect(Backend::kNccl, c.options);
  const auto num_ranks = static_cast<std::size_t>(world.size());
  const CommunicatorMemory whole = communicator->allocate(kNumBuffers * kLargest);
  if (!c.gathers) communicator->allocate_scratch(kLargest);
  const CommunicatorMemory part = communicator->allocate(kLargest / num_ranks);
  std::size_t turn = 0;
  for (const std::size_t mib : {1, 4, 16, 64, 128, 256, 512}) {
    const std::size_t bytes = mib * kMiB;
    const std::size_t count = bytes / num_ranks / size_of(c.type);
    const Collective collective = [&](void* stream) {
      auto* const buffer =
          static_cast<std::byte*>(whole.data) + (turn++ * bytes) % (kNumBuffers * kLargest);
      if (c.gathers) {
        communicator->all_gather(part.data, buffer, count, c.type, stream);
      } else {
        communicator->reduce_scatter(buffer, part.data, count, c.type, stream);
      }
    };
    CollectiveTiming result;
    if (bytes < kContest) {
      result.isolated_ms = benchmark.isolated_ms(collective);
    } else {
      result = benchmark.run(collective);
    }
    print(world, row(c, bytes, world.size(), result));
  }
}

// The sum that follows the copies of a reduce-scatter by copy engines among N ranks, on one GPU.
void measure_sum(int num_ranks, const World& world, CollectiveBenchmark& benchmark) {
  const auto options = at::TensorOptions(at::kBFloat16).device(at::kCUDA);
  constexpr std::int64_t kNumel = kLargest / 2;
  const at::Tensor parts = at::randn({2 * kNumel}, options);
  const at::Tensor sum = at::empty({kNumel / num_ranks}, options);
  std::int64_t turn = 0;
  for (const std::size_t mib : {64, 256, 512}) {
    const auto bytes = static_cast<std::int64_t>(mib * kMiB);
    const CollectiveTiming result = benchmark.run([&](void* stream) {
      const std::int64_t begin = turn++ * bytes % (2 * static_cast<std::int64_t>(kLargest));
      launch_rank_sum({.parts = static_cast<std::byte*>(parts.data_ptr()) + begin,
                       .sum = sum.data_ptr(),
                       .dtype = DataType::kBFloat16,
                       .num_ranks = num_ranks,
                       .num_bytes = bytes / num_ranks},
                      stream);
    });
    const double moved = static_cast<double>(bytes) * (1 + 1.0 / num_ranks);  // in this memory
    print(world, fmt::format("| sum | of {} ranks | - | bf16 | {} | {:.3f} | {:.0f} |", num_ranks,
                             mib, result.isolated_ms, moved / result.isolated_ms / 1e6) +
                     overlap_columns(result));
  }
}

// `chosen`: the collective to measure, or empty for all of them.
int run(const std::string& chosen) {
  const auto world = join_world();
  try {
    const auto device = make_cuda_device(world->local_rank(), {});
    CollectiveBenchmark benchmark(*world);
    constexpr double kFlop = 2.0 * 8192 * 4096 * 14336;
    print(*world, fmt::format("{} x {}; product 8192 x 4096 x 14336, bf16: {:.3f} ms, {:.0f} "
                              "TFLOP/s\n",
                              world->size(), device->name(), benchmark.product_ms(),
                              kFlop / benchmark.product_ms() / 1e9));
    print(*world,
          "| collective | path | CTAs | dtype | MiB | ms alone | GB/s | ms with products | "
          "products slower by | ms lost |\n|---|---|---|---|---|---|---|---|---|---|");
    for (const Case& c : all_cases()) {
      const bool wanted = chosen.empty() ? world->size() > 1 : chosen == c.name;
      if (wanted) measure(c, *world, benchmark);
    }
    for (const int num_ranks : {2, 4, 8}) {
      if (chosen.empty() || chosen == "rank-sum") measure_sum(num_ranks, *world, benchmark);
    }
  } catch (const Error& error) {
    world->fail(error.what(), error.exit_code());
  }
  return EXIT_SUCCESS;
}

}  // namespace
}  // namespace packtrain

int main(int argc, char** argv) {
  // Without it a collective may share a hardware queue with products launched before it.
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
  return packtrain::run(argc > 1 ? argv[1] : "");
}
