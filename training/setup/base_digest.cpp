#include "training/setup/base_digest.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "framework/core/hash.h"

namespace packtrain {
namespace {

constexpr std::int64_t kChunk = std::int64_t{1} << 22;  // elements: bounds the temporary memory
// Odd 64-bit constants of splitmix64 (Steele, Lea, Flood, 2014).
constexpr auto kIndexFactor = static_cast<std::int64_t>(0x9e3779b97f4a7c15U);
constexpr auto kFirstFactor = static_cast<std::int64_t>(0xbf58476d1ce4e5b9U);
constexpr auto kSecondFactor = static_cast<std::int64_t>(0x94d049bb133111ebU);

// The sum of a hash of each element, its index and its parameter's name. A sum does not depend on
// how elements are distributed over ranks. Integers of tensors wrap.
at::Tensor sum_of_hashes(const ShardView& shard) {
  const auto name =
      static_cast<std::int64_t>(digest_bytes(std::as_bytes(std::span(shard.parameter))).low);
  at::Tensor sum = at::zeros({}, shard.weight.options().dtype(at::kLong));
  for (std::int64_t begin = 0; begin < shard.numel; begin += kChunk) {
    const std::int64_t numel = std::min(kChunk, shard.numel - begin);
    const std::int64_t first = shard.begin + begin;
    at::Tensor z = at::arange(first, first + numel, sum.options());
    z.mul_(kIndexFactor).add_(name);
    const at::Tensor values = shard.weight.narrow(0, begin, numel).to(at::kFloat).contiguous();
    z.bitwise_xor_(values.view(at::kInt).to(at::kLong)).mul_(kFirstFactor);
    z.bitwise_xor_(z.bitwise_right_shift(29)).mul_(kSecondFactor);
    z.bitwise_xor_(z.bitwise_right_shift(32));
    sum.add_(z.sum());
  }
  return sum;
}

}  // namespace

void BaseDigest::add(const ShardView& shard) {
  sum_ += static_cast<std::uint64_t>(sum_of_hashes(shard).item<std::int64_t>());
}

std::string BaseDigest::text() const {
  return fmt::format("{:016x}", sum_);
}

namespace {

std::string digest_of(ShardedModel& model, bool with_adapter, Communicator& control) {
  BaseDigest digest;
  if (model.ranks().saves_shards()) {
    for (const ShardView& shard : model.parameters().shards()) {
      if (with_adapter || !shard.in_adapter) digest.add(shard);
    }
  }
  auto sum = static_cast<std::int64_t>(digest.sum());
  control.all_reduce(&sum, 1, DataType::kInt64, ReduceOp::kSum, nullptr);
  BaseDigest of_all;
  of_all.add(static_cast<std::uint64_t>(sum));
  return of_all.text();
}

}  // namespace

std::string base_digest(ShardedModel& model, Communicator& control) {
  return digest_of(model, false, control);
}

std::string model_digest(ShardedModel& model, Communicator& control) {
  return digest_of(model, true, control);
}

}  // namespace packtrain
