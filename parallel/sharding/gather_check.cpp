#include "parallel/sharding/gather_check.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/stack.h>
#include <fmt/format.h>

#include <utility>

#include "framework/core/error.h"

namespace packtrain {

void GatherCheck::add(const std::string& unit, const at::Tensor& whole) {
  units_.push_back(unit);
  sums_.push_back(whole.view({num_ranks_, -1}).view(at::kLong).sum(1));
}

void GatherCheck::compare(Communicator& communicator, void* stream) {
  const std::vector<std::string> units = std::exchange(units_, {});
  const std::vector<at::Tensor> sums = std::exchange(sums_, {});
  if (units.empty()) return;
  const auto num_gathers = static_cast<std::int64_t>(units.size());
  const at::Tensor mine = at::stack(sums);
  at::Tensor all = at::empty({num_ranks_, num_gathers, num_ranks_}, mine.options());
  communicator.all_gather(mine.const_data_ptr(), all.data_ptr(), mine.numel(), DataType::kInt64,
                          stream);
  all = all.cpu();
  const auto sum = all.accessor<std::int64_t, 3>();
  for (std::int64_t g = 0; g < num_gathers; ++g) {
    for (int owner = 0; owner < num_ranks_; ++owner) {
      for (int rank = 0; rank < num_ranks_; ++rank) {
        if (sum[rank][g][owner] == sum[owner][g][owner]) continue;
        throw Error(ErrorCategory::kReplicasDiffer,
                    fmt::format("gather {} of this step, of {}: rank {} of {} holds other weights "
                                "than rank {}, which owns them",
                                g, units[static_cast<std::size_t>(g)], rank, num_ranks_, owner),
                    "parallel.gather_path: ring takes another path; a GPU or link may be faulty.");
      }
    }
  }
}

}  // namespace packtrain
