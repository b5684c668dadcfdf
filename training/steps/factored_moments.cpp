#include "training/steps/factored_moments.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "training/optimizers/adafactor.h"

namespace packtrain {
namespace {

// Float32 [n], on the compute stream.
void sum_of_group(const ShardRanks& ranks, const at::Tensor& values, Stream& compute) {
  if (ranks.reduce().size() == 1) return;
  compute.run([&](StreamHandle handle) {
    const auto numel = static_cast<std::size_t>(values.numel());
    ranks.reduce().all_reduce(values.data_ptr(), numel, DataType::kFloat32, ReduceOp::kSum, handle);
  });
}

// Divides elements [begin, end) of a matrix.
std::vector<MatrixRectangle> rectangles(std::int64_t begin, std::int64_t end,
                                        std::int64_t columns) {
  std::vector<MatrixRectangle> all;
  while (begin < end) {
    const std::int64_t column = begin % columns;
    MatrixRectangle next{begin, begin / columns, 1, column,
                         std::min(columns - column, end - begin)};
    if (next.num_columns == columns) {
      const std::int64_t most = std::max<std::int64_t>(1, kFactoredElements / columns);
      next.num_rows = std::min((end - begin) / columns, most);
    }
    all.push_back(next);
    begin += next.numel();
  }
  return all;
}

std::vector<FactoredMatrix> owned_matrices(const std::vector<ParameterMatrix>& matrices,
                                           std::int64_t begin, std::int64_t end) {
  std::vector<FactoredMatrix> owned;
  std::int64_t factors = 0;
  for (std::size_t m = 0; m < matrices.size(); ++m) {
    const ParameterMatrix& matrix = matrices[m];
    const std::int64_t first = std::max(begin, matrix.begin) - matrix.begin;
    const std::int64_t last = std::min(end, matrix.begin + matrix.numel()) - matrix.begin;
    if (first < last) {
      owned.push_back(
          {static_cast<std::int64_t>(m), factors, matrix, rectangles(first, last, matrix.columns)});
    }
    factors += matrix.rows + matrix.columns;
  }
  return owned;
}

// [rows, columns] of a tensor that has the owned elements of the parameter from `at` on.
at::Tensor view_of(const at::Tensor& values, std::int64_t at, const FactoredMatrix& of,
                   const MatrixRectangle& rectangle, std::int64_t owned_begin) {
  const std::int64_t element = of.matrix.begin + rectangle.begin - owned_begin;
  return values.narrow(0, at + element, rectangle.numel())
      .view({rectangle.num_rows, rectangle.num_columns});
}

at::Tensor wide(const at::Tensor& values) {
  return values.to(at::kFloat);
}

// Where `skip` is not zero the values stay.
void write_unless(const at::Tensor& skip, const at::Tensor& values, const at::Tensor& to) {
  to.copy_(at::where(skip.ne(0), to, values));
}

}  // namespace

std::int64_t factored_sum_bytes(std::span<const ParameterSpec* const> parameters) {
  std::int64_t values = 0;
  for (const ParameterSpec* spec : parameters) {
    const std::vector<ParameterMatrix> matrices = parameter_matrices(*spec);
    const auto squares = std::max<std::int64_t>(1, std::ssize(matrices));
    values += 2 * num_factors(matrices) + 2 * squares;
  }
  return values * static_cast<std::int64_t>(sizeof(float));
}

FactoredMoments::FactoredMoments(ShardedModel& model, const SettingsOf& settings_of)
    : model_(model) {
  for (const auto& [name, spec] : parameters_by_name(model.units())) {
    if (!spec->trainable) continue;
    if (const FactoredSettings* settings = settings_of(*spec)) add(*spec, *settings);
  }
  if (empty()) return;
  const auto options = at::TensorOptions(at::kFloat).device(model.parameters().state().device);
  sums_ = at::zeros({num_sums_ + num_squares_}, options);
  squares_ = at::zeros({num_squares_}, options);
  find_owned();
}

void FactoredMoments::add(const ParameterSpec& spec, const FactoredSettings& settings) {
  Factored& parameter = parameters_.emplace_back();
  parameter.spec = &spec;
  parameter.settings = &settings;
  parameter.matrices = parameter_matrices(spec);
  parameter.is_factored = !parameter.matrices.empty();
  if (!parameter.is_factored) parameter.matrices = {{0, 1, spec.numel()}};
  parameter.num_factors = parameter.is_factored ? num_factors(parameter.matrices) : 0;
  parameter.sums_begin = num_sums_;
  parameter.squares_begin = num_squares_;
  num_sums_ += 2 * parameter.num_factors;
  num_squares_ += std::ssize(parameter.matrices);
}

void FactoredMoments::find_owned() {
  for (const ShardView& shard : model_.parameters().shards()) {
    const auto found = std::ranges::find_if(parameters_, [&](const Factored& parameter) {
      return parameter.spec->name == shard.parameter;
    });
    if (found == parameters_.end()) continue;
    found->begin = shard.begin;
    found->numel = shard.numel;
    found->state_begin = shard.state_begin;
    found->master = shard.weight;
    found->state = shard.optimizer.at(0).values;
    found->elements_per_value = shard.optimizer.at(0).elements_per_value;
    found->owned = owned_matrices(found->matrices, found->begin, found->begin + found->numel);
  }
}

// Squares of gradients by rows and columns, and squares of weights.
void FactoredMoments::sum_gradient(const Factored& parameter, const at::Tensor& flat,
                                   const at::Tensor& clip) {
  for (const FactoredMatrix& own : parameter.owned) {
    const at::Tensor weights = sums_.narrow(0, num_sums_ + parameter.squares_begin + own.index, 1);
    const std::int64_t row_begin = parameter.sums_begin + own.factors_begin;
    for (const MatrixRectangle& part : own.rectangles) {
      weights.add_(wide(view_of(parameter.master, 0, own, part, parameter.begin)).square().sum());
      if (!parameter.is_factored) continue;
      const at::Tensor squares =
          (wide(view_of(flat, parameter.state_begin, own, part, parameter.begin)) * clip).square();
      sums_.narrow(0, row_begin + part.row, part.num_rows).add_(squares.sum(1));
      sums_.narrow(0, row_begin + own.matrix.rows + part.column, part.num_columns)
          .add_(squares.sum(0));
    }
  }
}

at::Tensor FactoredMoments::own_factors(const Factored& parameter, std::int64_t begin) const {
  const std::int64_t first = parameter.begin / parameter.elements_per_value;
  const std::int64_t numel =
      std::clamp<std::int64_t>(parameter.num_factors - first, 0, parameter.state.numel());
  return sums_.narrow(0, begin + (numel > 0 ? first : 0), numel);
}

void FactoredMoments::sum_state(const Factored& parameter) {
  const at::Tensor own = own_factors(parameter, parameter.sums_begin + parameter.num_factors);
  own.copy_(parameter.state.narrow(0, 0, own.numel()));
}

// The sums of the state become r and c of this step.
void FactoredMoments::write_factors(const Factored& parameter, const UpdateOptions& options) {
  if (!parameter.is_factored) return;
  const double mix = adafactor_mix(parameter.settings->beta2_decay, options.step);
  const at::Tensor sums = sums_.narrow(0, parameter.sums_begin, parameter.num_factors);
  const at::Tensor state =
      sums_.narrow(0, parameter.sums_begin + parameter.num_factors, parameter.num_factors);
  std::int64_t begin = 0;
  for (const ParameterMatrix& matrix : parameter.matrices) {
    sums.narrow(0, begin, matrix.rows).div_(static_cast<double>(matrix.columns));
    sums.narrow(0, begin + matrix.rows, matrix.columns).div_(static_cast<double>(matrix.rows));
    begin += matrix.rows + matrix.columns;
  }
  state.lerp_(sums, mix);
  if (parameter.numel == 0) return;
  const at::Tensor own = own_factors(parameter, parameter.sums_begin + parameter.num_factors);
  write_unless(options.skip, own, parameter.state.narrow(0, 0, own.numel()));
}

// u in place of the gradient, and the sums of its squares.
void FactoredMoments::write_updates(const Factored& parameter, const at::Tensor& flat,
                                    const UpdateOptions& options) {
  const double epsilon = parameter.settings->epsilon;
  const double mix = adafactor_mix(parameter.settings->beta2_decay, options.step);
  for (const FactoredMatrix& own : parameter.owned) {
    const at::Tensor squares = squares_.narrow(0, parameter.squares_begin + own.index, 1);
    const std::int64_t factors = parameter.sums_begin + parameter.num_factors + own.factors_begin;
    for (const MatrixRectangle& part : own.rectangles) {
      const at::Tensor grad = view_of(flat, parameter.state_begin, own, part, parameter.begin);
      const at::Tensor clipped = wide(grad) * options.clip_factor;
      at::Tensor moment;
      if (parameter.is_factored) {
        const at::Tensor rows = sums_.narrow(0, factors, own.matrix.rows);
        const at::Tensor columns =
            sums_.narrow(0, factors + own.matrix.rows + part.column, part.num_columns);
        moment = rows.narrow(0, part.row, part.num_rows).unsqueeze(1) * columns;
        moment.div_(rows.mean().clamp_min(epsilon));
      } else {
        const at::Tensor state = view_of(parameter.state, 0, own, part, parameter.begin);
        moment = state.lerp(clipped.square(), mix);
        write_unless(options.skip, moment, state);
      }
      const at::Tensor update = moment.clamp_min_(epsilon * epsilon).rsqrt_().mul_(clipped);
      squares.add_(update.square().sum());
      grad.copy_(update);
    }
  }
}

// min(lr, 1 / sqrt(t)) max(min_rms, rms(w)) / max(1, rms(u) / d), divided by lr.
void FactoredMoments::scale_updates(const Factored& parameter, const at::Tensor& flat,
                                    const UpdateOptions& options) {
  const FactoredSettings& settings = *parameter.settings;
  const double rate = adafactor_rate(options.learning_rate, options.step);
  for (const FactoredMatrix& own : parameter.owned) {
    const std::int64_t place = parameter.squares_begin + own.index;
    const auto numel = static_cast<double>(own.matrix.numel());
    const at::Tensor rms_of_weights = sums_[num_sums_ + place].div(numel).sqrt();
    const at::Tensor rms_of_updates = squares_[place].div(numel).sqrt();
    const at::Tensor factor = rms_of_weights.clamp_min(settings.min_rms)
                                  .mul(rate)
                                  .div(rms_of_updates.div(settings.clip_threshold).clamp_min(1.0));
    for (const MatrixRectangle& part : own.rectangles) {
      view_of(flat, parameter.state_begin, own, part, parameter.begin).mul_(factor);
    }
  }
}

void FactoredMoments::run(const at::Tensor& flat, const OptionsOf& options_of) {
  if (empty()) return;
  Stream& compute = model_.compute();
  sums_.zero_();
  squares_.zero_();
  for (const Factored& parameter : parameters_) {
    if (parameter.numel == 0) continue;
    sum_gradient(parameter, flat, options_of(*parameter.spec).clip_factor);
    if (parameter.is_factored) sum_state(parameter);
  }
  sum_of_group(model_.ranks(), sums_, compute);
  for (const Factored& parameter : parameters_) {
    const UpdateOptions options = options_of(*parameter.spec);
    write_factors(parameter, options);
    if (parameter.numel > 0) write_updates(parameter, flat, options);
  }
  sum_of_group(model_.ranks(), squares_, compute);
  for (const Factored& parameter : parameters_) {
    if (parameter.numel > 0) scale_updates(parameter, flat, options_of(*parameter.spec));
  }
}

}  // namespace packtrain
