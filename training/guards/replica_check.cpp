#include "training/guards/replica_check.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <map>
#include <utility>

#include "framework/core/error.h"
#include "framework/device/trace_range.h"
#include "parallel/sharding/state_stream.h"

namespace packtrain {
namespace {

// Compares the ranks' positions in the run before their weights.
constexpr std::array kPositionNames = {"the number of the step", "the learning rate",
                                       "the seed of random numbers"};
constexpr std::int64_t kNumPositions = std::ssize(kPositionNames);

// Reads the memory once. Any single bit that differs changes the sum.
at::Tensor sum_of_words(const std::vector<at::Tensor>& tensors, const at::Tensor& zero) {
  at::Tensor sum = zero;
  for (const at::Tensor& tensor : tensors) {
    for_each_on_device(tensor, zero.device(), [&](const at::Tensor& words) {
      sum = sum.add(words.view(at::kLong).sum());
      return false;
    });
  }
  return sum;
}

std::string rank_list(std::vector<int> ranks) {
  return fmt::format("rank{} {}", ranks.size() > 1 ? "s" : "", fmt::join(ranks, ", "));
}

}  // namespace

bool all_replicas_equal(std::span<const std::int64_t> sums, int stride) {
  const auto distance = static_cast<std::size_t>(stride);
  for (std::size_t rank = distance; rank < sums.size(); ++rank) {
    if (sums[rank] != sums[rank - distance]) return false;
  }
  return true;
}

std::string describe_difference(const std::vector<std::int64_t>& sums, int stride) {
  for (int first = 0; first < stride; ++first) {
    std::map<std::int64_t, std::vector<int>> ranks_of;  // by sum
    int count = 0;
    for (int rank = first; rank < static_cast<int>(sums.size()); rank += stride, ++count) {
      ranks_of[sums[static_cast<std::size_t>(rank)]].push_back(rank);
    }
    if (ranks_of.size() == 1) continue;
    const auto most = std::ranges::max_element(
        ranks_of, {}, [](const auto& holders) { return holders.second.size(); });
    if (2 * std::ssize(most->second) > count) {
      std::vector<int> odd;
      for (const auto& [sum, ranks] : ranks_of) {
        if (sum != most->first) odd.insert(odd.end(), ranks.begin(), ranks.end());
      }
      std::ranges::sort(odd);
      return fmt::format("{} {} from {}", rank_list(odd), odd.size() > 1 ? "differ" : "differs",
                         rank_list(most->second));
    }
    std::vector<std::string> lists;
    for (const auto& [sum, ranks] : ranks_of) lists.push_back(rank_list(ranks));
    std::ranges::sort(lists);
    return fmt::format("{} differ, and no majority tells which is right",
                       fmt::join(lists, " and "));
  }
  return "";
}

ReplicaCheck::ReplicaCheck(ShardedModel& model, Device& device, std::int64_t every,
                           std::uint64_t seed)
    : model_(model),
      mesh_(model.ranks().mesh()),
      every_(every),
      seed_(static_cast<std::int64_t>(seed)),
      state_(model.parameters().replicated_state()) {
  if (!is_on()) return;
  const std::int64_t num_parts = kNumPositions + std::ssize(state_);
  const int num_ranks = mesh_.data_parallel_size();
  for (Sums& sums : sums_) {
    sums.memory = device.allocate_host(num_ranks * num_parts * sizeof(std::int64_t));
    sums.host = at::from_blob(sums.memory.data, {num_ranks, num_parts}, at::kLong);
  }
}

void ReplicaCheck::begin(std::int64_t number, double learning_rate) {
  if (is_on() && number % every_ == 0) take(number, learning_rate);
}

void ReplicaCheck::take(std::int64_t number, double learning_rate) {
  Sums& sums = sums_.at(static_cast<std::size_t>(number % 2));
  sums.number = number;
  model_.compute().run([&](StreamHandle) {
    const at::NoGradGuard no_grad;
    const TraceRange range("compare replicas");
    const at::Tensor zero = at::zeros(
        {}, at::TensorOptions().dtype(at::kLong).device(model_.parameters().state().device));
    std::vector<at::Tensor> parts = {
        zero.add(number), zero.add(std::bit_cast<std::int64_t>(learning_rate)), zero.add(seed_)};
    for (const ReplicatedState& state : state_) parts.push_back(sum_of_words(state.tensors, zero));
    const at::Tensor all = model_.ranks().gather_all(at::stack(parts), model_.compute());
    sums.host.copy_(all, /*non_blocking=*/true);
  });
}

void ReplicaCheck::judge(std::int64_t number) {
  Sums& sums = sums_.at(static_cast<std::size_t>(number % 2));
  if (sums.number != number) return;
  sums.number = 0;
  const auto values = sums.host.accessor<std::int64_t, 2>();
  std::vector<std::int64_t> held(static_cast<std::size_t>(mesh_.data_parallel_size()));
  for (std::int64_t part = 0; part < values.size(1); ++part) {
    const bool is_state = part >= kNumPositions;
    const auto index = static_cast<std::size_t>(is_state ? part - kNumPositions : part);
    const bool shard = is_state && state_[index].shard;
    const int stride = shard ? mesh_.shard.size : 1;
    for (std::size_t rank = 0; rank < held.size(); ++rank) {
      held[rank] = values[static_cast<std::int64_t>(rank)][part];
    }
    if (all_replicas_equal(held, stride)) continue;
    const std::string found = describe_difference(held, stride);
    throw Error(ErrorCategory::kReplicasDiffer,
                fmt::format("step {}: {}: not the same on all ranks that hold it: {}", number,
                            is_state ? state_[index].name : kPositionNames.at(index), found),
                "A GPU, its memory or a link may be faulty. The newest checkpoint is from before "
                "this was found: continue from it, without the host of that rank.");
  }
}

void ReplicaCheck::check_now(std::int64_t number, double learning_rate) {
  if (!is_on()) return;
  take(number, learning_rate);
  model_.compute().synchronize();
  judge(number);
}

}  // namespace packtrain
