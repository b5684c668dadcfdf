#include "training/setup/adapter_from_base.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linalg_vector_norm.h>
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
#include "framework/device/tensor_type.h"
#include "models/adapters/adapter_weights.h"
#include "models/adapters/low_rank.h"
#include "parallel/communicators/collectives.h"
#include "training/setup/adapter_residual.h"
#include "training/setup/collective_read.h"
#include "training/setup/first_parameter.h"

namespace packtrain {
namespace {

// One weight whose adapter begins from it.
struct Job {
  const AdapterTargets* targets = nullptr;
  const ParameterSpec* spec = nullptr;
  const LoraModules* modules = nullptr;

  // The magnitudes alone; A and B have values already.
  bool of_magnitudes() const { return targets->use_dora; }
  std::int64_t inputs() const { return spec->shape.back(); }
  // The number of values that are computed.
  std::int64_t numel() const {
    if (!of_magnitudes()) return total_rank(*modules) * inputs() + num_b_values();
    std::int64_t numel = 0;
    for (const LoraModule& module : *modules) numel += module.num_rows;
    return numel;
  }
  std::int64_t num_b_values() const {
    std::int64_t numel = 0;
    for (const LoraModule& module : *modules) numel += module.num_rows * module.rank;
    return numel;
  }
};

bool begins_from_base(const AdapterTargets& targets) {
  return is_from_base(targets.initialization) || targets.use_dora;
}

using Specs = std::map<std::string, const ParameterSpec*>;

// LoftQ leaves weights that are not in NF4 without an error to begin from.
std::vector<Job> find_jobs(const AdapterTargets& all, const Specs& specs) {
  std::vector<Job> jobs;
  const auto add = [&](const AdapterTargets& targets) {
    if (!begins_from_base(targets)) return;
    for (const auto& [weight, modules] : targets.weights) {
      const ParameterSpec* spec = specs.at(weight);
      const bool is_encoded = spec->encoding.format == ParameterEncoding::Format::kNf4;
      if (is_encoded || is_pissa(targets.initialization) || targets.use_dora) {
        jobs.push_back({&targets, spec, &modules});
      }
    }
  };
  add(all);
  for (const AdapterTargets& one : all.several) add(one);
  return jobs;
}

// The matrix whose largest part the adapter begins with, of all modules of the weight.
at::Tensor decomposed_matrix(const Job& job, const ModelSource& source, std::uint64_t seed) {
  const at::Tensor values = first_values(source, seed, *job.spec);
  const bool is_encoded = job.spec->encoding.format == ParameterEncoding::Format::kNf4;
  if (is_pissa(job.targets->initialization)) {
    // As the model has it. What is quantised is the residual.
    if (is_encoded) return values;
    return values.to(scalar_type(job.spec->encoding.stored_type())).to(at::kFloat);
  }
  const at::Tensor error =
      values.sub_(decoded_values(first_parameter(source, seed, *job.spec), *job.spec));
  if (error.abs().max().item<float>() > 0) return error;
  throw Error(ErrorCategory::kConfig,
              fmt::format("adapter.init: loftq reduces the error of NF4, and '{}' of {} has none",
                          job.spec->name, source.folder),
              "Give the folder of the unquantised model as model.path, or set adapter.init: "
              "default.");
}

DecompositionOptions options_of(const Job& job, const LoraModule& module, std::uint64_t seed) {
  DecompositionOptions options{std::nullopt, seed, module.name};
  if (job.targets->initialization == LoraInitialization::kPissaNiter) {
    options.num_iterations = job.targets->num_iterations;
  }
  return options;
}

// The norms of the rows of each module, one after another. B is zero.
at::Tensor magnitudes_of(const Job& job, const ModelSource& source, std::uint64_t seed) {
  const ParameterSpec& spec = *job.spec;
  const at::Tensor matrix =
      decoded_values(first_parameter(source, seed, spec), spec).to(scalar_type(spec.encoding.type));
  std::vector<at::Tensor> norms;
  for (const LoraModule& module : *job.modules) {
    norms.push_back(at::linalg_vector_norm(matrix.narrow(0, module.begin, module.num_rows), 2, {1},
                                           false, at::kFloat));
  }
  return at::cat(norms);
}

// A, and B of each module, one after another: float32 [n].
at::Tensor compute(const Job& job, const ModelSource& source, std::uint64_t seed) {
  if (job.of_magnitudes()) return magnitudes_of(job, source, seed);
  const at::Tensor matrix = decomposed_matrix(job, source, seed);
  std::vector<at::Tensor> a;
  std::vector<at::Tensor> all;
  for (const LoraModule& module : *job.modules) {
    const LowRankPart part = largest_part(matrix.narrow(0, module.begin, module.num_rows),
                                          module.rank, module.scale, options_of(job, module, seed));
    a.push_back(part.a.view({-1}));
    all.push_back(part.b.view({-1}));
  }
  all.insert(all.begin(), a.begin(), a.end());
  return at::cat(all);
}

InitialUpdate split(const Job& job, const at::Tensor& values) {
  const std::int64_t rank = total_rank(*job.modules);
  InitialUpdate update{values.narrow(0, 0, rank * job.inputs()).view({rank, job.inputs()}), {}};
  std::int64_t begin = rank * job.inputs();
  for (const LoraModule& module : *job.modules) {
    const std::int64_t numel = module.num_rows * module.rank;
    update.b.push_back(values.narrow(0, begin, numel).view({module.num_rows, module.rank}));
    begin += numel;
  }
  return update;
}

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
    const std::vector<Job> jobs = find_jobs(*source_.decoder.adapter, specs_);
    log_info("adapter.{} of {} weights are computed{}",
             source_.decoder.adapter->use_dora ? "use_dora: the norms of the rows"
                                               : "init: the singular values",
             jobs.size(), readers_.size() > 1 ? fmt::format(" by {} ranks", readers_.size()) : "");
    const auto size = static_cast<std::size_t>(readers_.size());
    for (std::size_t begin = 0; begin < jobs.size(); begin += size) {
      run_round(std::span(jobs).subspan(begin, std::min(size, jobs.size() - begin)));
    }
  }

 private:
  void run_round(std::span<const Job> jobs) {
    const auto rank = static_cast<std::size_t>(readers_.rank());
    at::Tensor own;
    const auto failed = error_of([&] {
      if (rank < jobs.size()) own = compute(jobs[rank], source_, seed_);
    });
    throw_first_rank_error(failed, readers_);
    std::optional<Error> error;
    for (std::size_t root = 0; root < jobs.size(); ++root) {
      const Job& job = jobs[root];
      const at::Tensor values = root == rank ? own : at::empty({job.numel()}, at::kFloat);
      readers_.broadcast(values.mutable_data_ptr(), values.nbytes(), static_cast<int>(root),
                         nullptr);
      const auto other = error_of([&] { use(job, values); });
      if (!error) error = other;
    }
    throw_first_rank_error(error, readers_);
  }

  void use_magnitudes(const Job& job, const at::Tensor& values) const {
    std::int64_t begin = 0;
    for (const LoraModule& module : *job.modules) {
      fill(magnitude_name(job.spec->name, module, job.targets->name),
           values.narrow(0, begin, module.num_rows));
      begin += module.num_rows;
    }
  }

  void use(const Job& job, const at::Tensor& values) const {
    if (job.of_magnitudes()) return use_magnitudes(job, values);
    const InitialUpdate update = split(job, values);
    const std::string& adapter = job.targets->name;
    fill(lora_a_name(job.spec->name, adapter), update.a);
    for (std::size_t m = 0; m < job.modules->size(); ++m) {
      fill(lora_b_name(job.spec->name, (*job.modules)[m], adapter), update.b[m]);
    }
    if (!is_pissa(job.targets->initialization)) return;
    const auto weight = shards_.find(job.spec->name);
    if (weight == shards_.end()) return;
    subtract_initial(*job.modules, update, weight->second,
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
  Specs specs_;
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
