#include "training/setup/values_from_weight.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/mm.h>
#include <fmt/format.h>

#include <cstddef>
#include <optional>
#include <utility>

#include "framework/core/error.h"
#include "framework/device/tensor_type.h"
#include "models/adapters/low_rank.h"
#include "training/setup/first_parameter.h"

namespace packtrain {
namespace {

bool is_encoded(const ParameterSpec& spec) {
  return !spec.encoding.is_plain();
}

// The matrix whose largest part the adapter begins with, of all modules of the weight.
at::Tensor decomposed_matrix(const FromWeight& from, const ModelSource& source,
                             std::uint64_t seed) {
  const ParameterSpec& spec = *from.spec;
  const at::Tensor values = first_values(source, seed, spec);
  if (is_pissa(from.targets->initialization)) {
    // As the model has it. What is quantised is the residual.
    if (is_encoded(spec)) return values;
    return values.to(scalar_type(spec.encoding.stored_type())).to(at::kFloat);
  }
  const at::Tensor error = values.sub_(decoded_values(first_parameter(source, seed, spec), spec));
  if (error.abs().max().item<float>() > 0) return error;
  throw Error(ErrorCategory::kConfig,
              fmt::format("adapter.init: loftq reduces the error of NF4, and '{}' of {} has none",
                          spec.name, source.folder),
              "Give the folder of the unquantised model as model.path, or set adapter.init: "
              "default.");
}

DecompositionOptions options_of(const FromWeight& from, const LoraModule& module,
                                std::uint64_t seed) {
  DecompositionOptions options{std::nullopt, seed, module.name};
  if (from.targets->initialization == LoraInitialization::kPissaNiter) {
    options.num_iterations = from.targets->num_iterations;
  }
  return options;
}

InitialUpdate decompose(const FromWeight& from, const ModelSource& source, std::uint64_t seed) {
  const at::Tensor matrix = decomposed_matrix(from, source, seed);
  InitialUpdate update;
  std::vector<at::Tensor> a;
  for (const LoraModule& module : *from.modules) {
    const LowRankPart part =
        largest_part(matrix.narrow(0, module.begin, module.num_rows), module.rank, module.scale,
                     options_of(from, module, seed));
    a.push_back(part.a);
    update.b.push_back(part.b);
  }
  update.a = at::cat(a);
  return update;
}

// W under the adapter, as products read it.
at::Tensor read_weight(const FromWeight& from, const ModelSource& source, std::uint64_t seed,
                       const InitialUpdate& update) {
  const ParameterSpec& spec = *from.spec;
  const at::Tensor values = is_pissa(from.targets->initialization)
                                ? residual_values(source, seed, spec, *from.modules, update)
                                : decoded_values(first_parameter(source, seed, spec), spec);
  return values.to(scalar_type(spec.encoding.type)).to(at::kFloat);
}

// The norms of the rows of W + scale B A, of each module. `update`: empty where B is zero.
std::vector<at::Tensor> row_norms(const FromWeight& from, const ModelSource& source,
                                  std::uint64_t seed, const InitialUpdate& update) {
  const at::Tensor weight = read_weight(from, source, seed, update);
  std::vector<at::Tensor> norms;
  std::int64_t first = 0;
  for (std::size_t m = 0; m < from.modules->size(); ++m) {
    const LoraModule& module = (*from.modules)[m];
    at::Tensor rows = weight.narrow(0, module.begin, module.num_rows);
    if (update.a.defined()) {
      const at::Tensor a = update.a.narrow(0, first, module.rank);
      rows = at::mm(update.b[m], a).mul_(module.scale).add_(rows);
    }
    norms.push_back(at::linalg_vector_norm(rows, 2, {1}));
    first += module.rank;
  }
  return norms;
}

}  // namespace

bool FromWeight::decomposes() const {
  const LoraInitialization initialization = targets->initialization;
  return is_pissa(initialization) || (is_from_base(initialization) && is_encoded(*spec));
}

std::int64_t FromWeight::num_factor_values() const {
  std::int64_t numel = 0;
  for (const LoraModule& module : *modules) {
    numel += module.rank * (module.num_rows + spec->shape.back());
  }
  return decomposes() ? numel : 0;
}

std::int64_t FromWeight::numel() const {
  std::int64_t num_rows = 0;
  for (const LoraModule& module : *modules) num_rows += module.num_rows;
  return num_factor_values() + (targets->use_dora ? num_rows : 0);
}

at::Tensor FromWeight::compute(const ModelSource& source, std::uint64_t seed) const {
  InitialUpdate factors;
  std::vector<at::Tensor> values;
  if (decomposes()) {
    factors = decompose(*this, source, seed);
    values.push_back(factors.a.view({-1}));
    for (const at::Tensor& b : factors.b) values.push_back(b.view({-1}));
  }
  if (targets->use_dora) {
    for (at::Tensor& norms : row_norms(*this, source, seed, factors)) {
      values.push_back(std::move(norms));
    }
  }
  return at::cat(values);
}

InitialUpdate FromWeight::update(const at::Tensor& values) const {
  const std::int64_t rank = total_rank(*modules);
  const std::int64_t inputs = spec->shape.back();
  InitialUpdate factors{values.narrow(0, 0, rank * inputs).view({rank, inputs}), {}};
  std::int64_t begin = rank * inputs;
  for (const LoraModule& module : *modules) {
    const std::int64_t numel = module.num_rows * module.rank;
    factors.b.push_back(values.narrow(0, begin, numel).view({module.num_rows, module.rank}));
    begin += numel;
  }
  return factors;
}

std::vector<at::Tensor> FromWeight::magnitudes(const at::Tensor& values) const {
  std::vector<at::Tensor> of_modules;
  std::int64_t begin = num_factor_values();
  for (const LoraModule& module : *modules) {
    of_modules.push_back(values.narrow(0, begin, module.num_rows));
    begin += module.num_rows;
  }
  return of_modules;
}

bool begins_from_base(const AdapterTargets& targets) {
  return is_from_base(targets.initialization) || targets.use_dora;
}

std::vector<FromWeight> find_weights(const AdapterTargets& all, const SpecsOfNames& specs) {
  std::vector<FromWeight> weights;
  const auto add = [&](const AdapterTargets& targets) {
    for (const auto& [weight, modules] : targets.weights) {
      const FromWeight from{&targets, specs.at(weight), &modules};
      if (from.numel() > 0) weights.push_back(from);
    }
  };
  add(all);
  for (const AdapterTargets& one : all.several) add(one);
  return weights;
}

}  // namespace packtrain
