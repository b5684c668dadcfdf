#include "parallel/sharding/self_test.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "framework/core/error.h"
#include "parallel/sharding/arena.h"

namespace packtrain {
namespace {

// Values are whole numbers up to 256, which every dtype represents exactly.
constexpr std::int64_t kGatherPeriod = 251;
constexpr std::int64_t kReducePeriod = 113;
constexpr std::int64_t kChunk = std::int64_t{1} << 22;  // limits the memory of patterns

// The values of the elements with indices `indices` (int64).
using Pattern = std::function<at::Tensor(const at::Tensor& indices)>;

void for_chunks(const at::Tensor& flat, const Pattern& pattern,
                const std::function<void(const at::Tensor& chunk, const at::Tensor& wanted,
                                         std::int64_t begin)>& visit) {
  for (std::int64_t begin = 0; begin < flat.numel(); begin += kChunk) {
    const std::int64_t end = std::min(flat.numel(), begin + kChunk);
    const auto options = flat.options().dtype(at::kLong);
    const at::Tensor wanted = pattern(at::arange(begin, end, options)).to(flat.scalar_type());
    visit(flat.narrow(0, begin, end - begin), wanted, begin);
  }
}

void fill(const at::Tensor& flat, const Pattern& pattern) {
  for_chunks(flat, pattern, [](const at::Tensor& chunk, const at::Tensor& values, std::int64_t) {
    chunk.copy_(values);
  });
}

// True when any element is wrong. The host waits once.
bool differs(const at::Tensor& flat, const Pattern& pattern) {
  const at::Tensor wrong = at::zeros({}, flat.options().dtype(at::kBool));
  for_chunks(flat, pattern, [&](const at::Tensor& chunk, const at::Tensor& wanted, std::int64_t) {
    wrong.bitwise_or_(chunk.ne(wanted).any());
  });
  return wrong.item<bool>();
}

// Describes an element in a message.
using Naming = std::function<std::string(std::int64_t element)>;

std::string describe_first_wrong(const at::Tensor& flat, const Pattern& pattern,
                                 const Naming& name) {
  std::string found;
  for_chunks(flat, pattern,
             [&](const at::Tensor& chunk, const at::Tensor& wanted, std::int64_t begin) {
               if (!found.empty()) return;
               const at::Tensor wrong = chunk.ne(wanted).nonzero();
               if (wrong.size(0) == 0) return;
               const auto first = wrong[0].item<std::int64_t>();
               found = fmt::format("self-test at start: {}: got {}, wanted {}", name(begin + first),
                                   chunk[first].item<double>(), wanted[first].item<double>());
             });
  return found;
}

// Records the first wrong element, unless `failure` is already set. Every rank runs all of the
// collectives, so that none waits for a rank that stopped.
void expect(const at::Tensor& flat, const Pattern& pattern, const Naming& name,
            std::string& failure) {
  if (!failure.empty() || !differs(flat, pattern)) return;
  failure = describe_first_wrong(flat, pattern, name);
}

Pattern stamp_of(int rank) {
  return [rank](const at::Tensor& indices) {
    return indices.add(31 * static_cast<std::int64_t>(rank)).remainder(kGatherPeriod);
  };
}

// The stamps of all ranks one after another, `numel` elements each.
Pattern stamps_of_all(std::int64_t numel) {
  return [numel](const at::Tensor& indices) {
    const at::Tensor rank = indices.floor_divide(numel);
    return indices.remainder(numel).add(rank.mul(31)).remainder(kGatherPeriod);
  };
}

void test_gather(const at::Tensor& owned, const at::Tensor& whole, DataType type,
                 const std::string& unit, Communicator& communicator, StreamHandle stream,
                 std::string& failure) {
  const int rank = communicator.rank();
  const std::int64_t numel = owned.numel();
  fill(owned, stamp_of(rank));
  whole.fill_(-1);
  communicator.all_gather(owned.const_data_ptr(), whole.data_ptr(), numel, type, stream);
  const auto name = [&](std::int64_t element) {
    return fmt::format(
        "the all-gather ({}) of {} on rank {}, in what rank {} sent, is wrong at element {}",
        communicator.path(), unit, rank, element / numel, element % numel);
  };
  expect(whole.narrow(0, 0, communicator.size() * numel), stamps_of_all(numel), name, failure);
  owned.zero_();
}

// Rank `i` modulo their number adds a value that identifies element i. The others add 1, or 0 above
// 128 ranks.
std::int64_t others_add(int num_ranks) {
  return num_ranks <= 128 ? 1 : 0;  // so that sums stay exact
}

Pattern term_of(int rank, int num_ranks) {
  return [=](const at::Tensor& indices) {
    return at::where(indices.remainder(num_ranks).eq(rank), indices.remainder(kReducePeriod).add(1),
                     at::full({}, others_add(num_ranks), indices.options()));
  };
}

Pattern sum_of(std::int64_t first, int num_ranks) {
  return [=](const at::Tensor& indices) {
    return indices.add(first)
        .remainder(kReducePeriod)
        .add(1 + (num_ranks - 1) * others_add(num_ranks));
  };
}

void test_reduction(const at::Tensor& whole, const at::Tensor& sum, const std::string& unit,
                    Communicator& communicator, StreamHandle stream, std::string& failure) {
  const int rank = communicator.rank();
  const int num_ranks = communicator.size();
  fill(whole, term_of(rank, num_ranks));
  sum.fill_(-1);
  communicator.reduce_scatter(whole.data_ptr(), sum.data_ptr(), sum.numel(),
                              communicator_type(whole.scalar_type()), stream);
  const auto name = [&](std::int64_t element) {
    return fmt::format("the reduce-scatter ({}) of {} on rank {} is wrong at element {}",
                       communicator.path(), unit, rank, element);
  };
  expect(sum, sum_of(rank * sum.numel(), num_ranks), name, failure);
  whole.zero_();
  sum.zero_();
}

// Across groups gradients are summed in place.
void test_sum_across_groups(const at::Tensor& sum, const std::string& unit,
                            Communicator& communicator, StreamHandle stream, std::string& failure) {
  const int rank = communicator.rank();
  const int num_ranks = communicator.size();
  fill(sum, term_of(rank, num_ranks));
  communicator.all_reduce(sum.data_ptr(), sum.numel(), communicator_type(sum.scalar_type()),
                          ReduceOp::kSum, stream);
  const auto name = [&](std::int64_t element) {
    return fmt::format("the all-reduce across groups ({}) of {} in group {} is wrong at element {}",
                       communicator.path(), unit, rank, element);
  };
  expect(sum, sum_of(0, num_ranks), name, failure);
  sum.zero_();
}

void test_gathers(const SelfTestParts& parts, std::string& failure) {
  if (parts.ranks.gather().size() == 1) return;
  const std::vector<int>& slot_of_unit = parts.slots.weight_slot_of_unit;
  for (int slot = 0; slot < parts.slots.num_weight_slots; ++slot) {
    const auto unit =
        static_cast<int>(std::ranges::find(slot_of_unit, slot) - slot_of_unit.begin());
    parts.streams.gather->run([&, unit](StreamHandle handle) {
      const at::NoGradGuard no_grad;
      for (std::size_t part = 0; part < parts.table.units[unit].parts.size(); ++part) {
        test_gather(parts.storage.sent_weights(unit, part),
                    parts.storage.gathered_weights(unit, part),
                    parts.table.units[unit].parts[part].layout.gathered_type,
                    parts.table.units[unit].name, parts.ranks.gather(), handle, failure);
      }
    });
  }
  parts.streams.gather->synchronize();
}

// A unit whose gradient uses the slot or local sum; -1 when there is none.
int user_of_grad_slot(const SelfTestParts& parts, int slot) {
  if (parts.slots.is_local_sum(slot)) {
    const int unit = slot - parts.slots.num_grad_slots;
    return parts.table.units[unit].trainable_parts().empty() ? -1 : unit;
  }
  const int wanted = slot < parts.slots.first_rotating_grad_slot() ? slot : -1;
  const auto num_units = static_cast<int>(parts.table.units.size());
  for (int unit = 0; unit < num_units; ++unit) {
    const bool uses = parts.slots.grad_slot_of_unit[unit] == wanted;
    if (uses && !parts.table.units[unit].trainable_parts().empty()) return unit;
  }
  return -1;
}

void test_reductions(const SelfTestParts& parts, std::string& failure) {
  if (parts.slots.grads_in_place) return;
  const GradientStorage& gradients = parts.storage.gradients();
  for (int slot = 0; slot < parts.slots.num_slots_and_sums(); ++slot) {
    const int unit = user_of_grad_slot(parts, slot);
    if (unit < 0) continue;
    // A sum of another dtype is sent from a slot.
    if (gradients.whole(unit, slot).scalar_type() != gradients.sum().scalar_type()) continue;
    parts.streams.reduce->run([&, unit, slot](StreamHandle handle) {
      const at::NoGradGuard no_grad;
      const at::Tensor whole = gradients.whole(unit, slot);
      for (const at::Tensor& sum : {gradients.shard(unit), gradients.reduce_output(unit)}) {
        test_reduction(whole, sum, parts.table.units[unit].name, parts.ranks.reduce(), handle,
                       failure);
      }
    });
  }
  parts.streams.reduce->synchronize();
}

void test_replicas(const SelfTestParts& parts, std::string& failure) {
  Communicator* replicas = parts.ranks.replicas();
  if (replicas == nullptr) return;
  const GradientStorage& gradients = parts.storage.gradients();
  parts.streams.reduce->run([&](StreamHandle handle) {
    const at::NoGradGuard no_grad;
    for (std::size_t unit = 0; unit < parts.table.units.size(); ++unit) {
      if (parts.table.units[unit].trainable_parts().empty()) continue;
      test_sum_across_groups(gradients.shard(static_cast<int>(unit)), parts.table.units[unit].name,
                             *replicas, handle, failure);
    }
  });
  parts.streams.reduce->synchronize();
}

}  // namespace

void test_collectives(const SelfTestParts& parts) {
  std::string failure;
  test_gathers(parts, failure);
  test_reductions(parts, failure);
  test_replicas(parts, failure);
  if (failure.empty()) return;
  throw Error(
      ErrorCategory::kDevice, failure,
      "parallel.gather_path: ring and parallel.reduce_path: ring take other paths; a GPU or "
      "link may be faulty.");
}

}  // namespace packtrain
