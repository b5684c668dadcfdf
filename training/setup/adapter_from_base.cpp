#include "training/setup/adapter_from_base.h"

#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "framework/core/error.h"
#include "framework/core/logging.h"
#include "models/adapters/adapter_weights.h"
#include "parallel/communicators/collectives.h"
#include "training/setup/adapter_residual.h"
#include "training/setup/collective_read.h"
#include "training/setup/first_parameter.h"
#include "training/setup/values_from_weight.h"

namespace packtrain {
namespace {

// The error of `work`, if it throws one.
std::optional<Error> error_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    return error;
  } catch (const c10::Error& error) {  // of LAPACK
    return Error(ErrorCategory::kConfig,
                 fmt::format("adapter.init: a singular value decomposition failed: {}",
                             error.what_without_backtrace()),
                 "Set adapter.init: default.");
  }
  return std::nullopt;
}

// The work of the ranks that read the model.
class FromBase {
 public:
  FromBase(const ModelSource& source, std::uint64_t seed, ShardedModel& model,
           Communicator& readers)
      : source_(source), seed_(seed), readers_(readers), specs_(parameters_by_name(model.units())) {
    for (const ShardView& shard : model.parameters().shards()) {
      shards_.emplace(shard.parameter, shard);
    }
  }

  // Each rank computes one job of a round, and all ranks use the results of all.
  void run() {
    const AdapterTargets& all = *source_.decoder.adapter;
    const std::vector<FromWeight> jobs = find_weights(all, specs_);
    log_info("adapter.{} of {} weights are computed{}",
             all.use_dora ? "use_dora: the norms of the rows" : "init: the singular values",
             jobs.size(), readers_.size() > 1 ? fmt::format(" by {} ranks", readers_.size()) : "");
    const auto size = static_cast<std::size_t>(readers_.size());
    for (std::size_t begin = 0; begin < jobs.size(); begin += size) {
      run_round(std::span(jobs).subspan(begin, std::min(size, jobs.size() - begin)));
    }
  }

 private:
  void run_round(std::span<const FromWeight> jobs) {
    const auto rank = static_cast<std::size_t>(readers_.rank());
    at::Tensor own;
    const auto failed = error_of([&] {
      if (rank < jobs.size()) own = jobs[rank].compute(source_, seed_);
    });
    throw_first_rank_error(failed, readers_);
    std::optional<Error> error;
    for (std::size_t root = 0; root < jobs.size(); ++root) {
      const FromWeight& job = jobs[root];
      const at::Tensor values = root == rank ? own : at::empty({job.numel()}, at::kFloat);
      readers_.broadcast(values.mutable_data_ptr(), values.nbytes(), static_cast<int>(root),
                         nullptr);
      const auto other = error_of([&] { use(job, values); });
      if (!error) error = other;
    }
    throw_first_rank_error(error, readers_);
  }

  void use(const FromWeight& job, const at::Tensor& values) const {
    const std::string& weight = job.spec->name;
    const std::string& adapter = job.targets->name;
    for (std::size_t m = 0; m < job.modules->size() && job.targets->use_dora; ++m) {
      fill(magnitude_name(weight, (*job.modules)[m], adapter), job.magnitudes(values)[m]);
    }
    if (!job.decomposes()) return;
    const InitialUpdate update = job.update(values);
    fill(lora_a_name(weight, adapter), update.a);
    for (std::size_t m = 0; m < job.modules->size(); ++m) {
      fill(lora_b_name(weight, (*job.modules)[m], adapter), update.b[m]);
    }
    const auto shard = shards_.find(weight);
    if (!is_pissa(job.targets->initialization) || shard == shards_.end()) return;
    subtract_initial(*job.modules, update, shard->second,
                     [&] { return first_values(source_, seed_, *job.spec); });
  }

  void fill(const std::string& parameter, const at::Tensor& values) const {
    const auto shard = shards_.find(parameter);
    if (shard == shards_.end()) return;  // another rank's
    shard->second.weight.copy_(
        values.view({-1}).narrow(0, shard->second.begin, shard->second.numel));
  }

  const ModelSource& source_;
  std::uint64_t seed_;
  Communicator& readers_;
  SpecsOfNames specs_;
  std::map<std::string, ShardView> shards_;  // of this rank
};

}  // namespace

std::vector<ShardView> initialize_from_base(const ModelSource& source, std::uint64_t seed,
                                            ShardedModel& model, Communicator& control) {
  const AdapterTargets& targets = *source.decoder.adapter;
  if (!begins_from_base(targets) && !std::ranges::any_of(targets.several, begins_from_base)) {
    return {};
  }
  const bool reads = model.ranks().saves_shards();
  const auto readers = control.split(reads ? 0 : 1, control.rank());
  const auto fill = [&](std::span<const ShardView> /*shards*/) {
    FromBase(source, seed, model, *readers).run();
  };
  if (const auto failure = collective_read(model, control, fill)) throw failure->error;
  if (!reads || !is_pissa(targets.initialization)) return {};
  return copy_initial_values(model);
}

}  // namespace packtrain
