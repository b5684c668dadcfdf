#include "models/layers/recorded_adapters.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <utility>

#include "models/block/operator_context.h"
#include "models/layers/declared_parameters.h"
#include "models/ops/experts/grouped_matmul.h"
#include "models/ops/gradient.h"
#include "models/ops/linear/linear.h"
#include "models/ops/linear/lora.h"
#include "models/ops/linear/lora_linear.h"
#include "models/ops/matmul/matmul.h"

namespace packtrain {

// The update of one adapter.
struct OwnUpdate {
  LoraModules modules;
  LoraParameters parameters = {};
  double dropout = 0;
  int adapter = 0;
  std::int64_t first_column = 0;  // in s

  std::int64_t rank() const { return total_rank(modules); }
};

namespace {

// Up to this rank of all adapters, one product has all rows and the A of all. A row needs the
// columns of its adapter alone. Above this rank each adapter has a product of its rows, which is
// less work.
constexpr std::int64_t kMaxJoinedRank = 256;

// The rows of one adapter.
struct Slice {
  std::int64_t begin = 0;
  std::int64_t numel = 0;

  at::Tensor of(const at::Tensor& rows) const { return rows.narrow(0, begin, numel); }
};

Slice slice_of(const AdapterRows& rows, const OwnUpdate& own) {
  const std::vector<std::int64_t> begins = rows.first_rows();
  const std::int64_t begin = begins.at(own.adapter);
  return {begin, begins.at(own.adapter + 1) - begin};
}

}  // namespace

class JoinedUpdates {
 public:
  JoinedUpdates(OperatorTape& tape, const std::string& name, std::int64_t in,
                const std::vector<WeightUpdate>& updates, bool selected)
      : num_adapters_(std::ssize(updates)), selected_(selected) {
    for (std::size_t i = 0; i < updates.size(); ++i) {
      if (updates[i].modules == nullptr) continue;
      OwnUpdate own{.modules = *updates[i].modules,
                    .dropout = updates[i].dropout,
                    .adapter = static_cast<int>(i),
                    .first_column = total_rank(modules_)};
      for (LoraModule& module : own.modules) module.adapter = own.adapter;
      own.parameters = declare_lora(tape, name, own.modules, in, updates[i].adapter, own.adapter);
      modules_.insert(modules_.end(), own.modules.begin(), own.modules.end());
      drops_ = drops_ || own.dropout > 0;
      own_.push_back(std::move(own));
    }
  }

  const std::vector<OwnUpdate>& own() const { return own_; }
  // The modules of all adapters.
  const LoraModules& modules() const { return modules_; }
  std::vector<const Parameter*> b_of(const OperatorContext& run) const {
    std::vector<const Parameter*> b;
    for (const OwnUpdate& own : own_) {
      for (const ParameterId id : own.parameters.b) b.push_back(&run.parameter(id));
    }
    return b;
  }
  // The matrices A of all adapters [R, in], without a gradient.
  Parameter joined_a(const OperatorContext& run) const {
    std::vector<at::Tensor> values;
    for (const OwnUpdate& own : own_) values.push_back(run.parameter(own.parameters.a).value);
    return {at::cat(values), {}};
  }
  // A rehearsal's batch does not say whose its rows are: they are of the first adapter.
  AdapterRows rows_of(const OperatorContext& run) const {
    const DeviceBatch& batch = run.batch();
    const AdapterRows& rows = selected_ ? batch.adapter_loss_rows : batch.adapter_rows;
    if (rows.are_several()) return rows;
    const std::int64_t num_rows = selected_ ? batch.loss_index.size(0) : batch.num_rows();
    const at::Tensor begins = at::full({num_adapters_ + 1}, num_rows, batch.input_ids.options());
    begins.select(0, 0).zero_();
    return {begins};
  }
  bool drops(const OperatorContext& run) const { return drops_ && run.batch().row_seeds.defined(); }
  bool multiplies_slices(const OperatorContext& run) const {
    if (drops(run)) return true;
    return !rows_of(run).on_host.empty() && total_rank(modules_) > kMaxJoinedRank;
  }

  // s of all adapters.
  at::Tensor low_rank(const OperatorContext& run, const at::Tensor& x) const {
    const GemmTiming& timing = run.options().gemm_timing;
    if (!multiplies_slices(run)) {
      at::Tensor s = gemm(x, joined_a(run).value.t(), {}, timing);
      scale_modules(s, modules_, rows_of(run));
      return s;
    }
    at::Tensor s = at::zeros({x.size(0), total_rank(modules_)}, x.options());
    for (const OwnUpdate& own : own_) {
      const Slice slice = slice_of(rows_of(run), own);
      if (slice.numel == 0) continue;
      columns(s, own, slice)
          .copy_(lora_low_rank(slice.of(x), run.parameter(own.parameters.a), own.modules,
                               dropout_of(run, own, slice), timing));
    }
    return s;
  }

  // Writes dA of all adapters.
  void write_a(const OperatorContext& run, const at::Tensor& grad_s, const at::Tensor& x) const {
    if (!multiplies_slices(run) && x.is_cuda() && grouped_gemm_sizes_stay_on_device()) {
      return write_joined_a(run, grad_s, x);
    }
    for (const OwnUpdate& own : own_) {
      const Parameter& a = run.parameter(own.parameters.a);
      const Slice slice = slice_of(rows_of(run), own);
      if (slice.numel == 0) {
        write_zero_gradient(a);
        continue;
      }
      lora_backward_a(columns(grad_s, own, slice), slice.of(x), a, own.modules,
                      dropout_of(run, own, slice), run.options().gemm_timing);
    }
  }

  // Adds d(x A^T) A of all adapters to `grad_x`.
  void add_backward_x(const OperatorContext& run, const at::Tensor& grad_s,
                      const at::Tensor& grad_x) const {
    for (const OwnUpdate& own : own_) {
      const Slice slice = slice_of(rows_of(run), own);
      if (slice.numel == 0) continue;
      lora_add_backward_x(columns(grad_s, own, slice), run.parameter(own.parameters.a), own.modules,
                          dropout_of(run, own, slice), run.options().gemm_timing, slice.of(grad_x));
    }
  }

 private:
  // With a mask for each module, which the rows' seeds decide.
  LoraDropout dropout_of(const OperatorContext& run, const OwnUpdate& own,
                         const Slice& slice) const {
    if (own.dropout == 0 || !drops(run)) return {};
    const DeviceBatch& batch = run.batch();
    const at::Tensor seeds =
        selected_ ? batch.row_seeds.index_select(0, batch.loss_index) : batch.row_seeds;
    return {slice.of(seeds), own.dropout};
  }
  static at::Tensor columns(const at::Tensor& s, const OwnUpdate& own, const Slice& slice) {
    return slice.of(s).narrow(1, own.first_column, own.rank());
  }

  // A group of the product is the rows of an adapter with the columns of all. The adapter's own
  // columns are its gradient. One product of all rows would have rows that are not finite in the
  // sums of all adapters.
  void write_joined_a(const OperatorContext& run, const at::Tensor& grad_s,
                      const at::Tensor& x) const {
    const at::Tensor& first = run.parameter(own_.front().parameters.a).grad;
    if (!first.defined()) return;
    const at::Tensor sums = at::empty({num_adapters_, grad_s.size(1), x.size(1)}, first.options());
    const Parameter all{/*value, of which the shape is read=*/sums, sums};
    grouped_weight_gradient(all, grad_s, x, rows_of(run).begins.slice(0, 1),
                            run.options().gemm_timing);
    std::vector<const Parameter*> parameters;
    std::vector<at::Tensor> gradients;
    for (const OwnUpdate& own : own_) {
      parameters.push_back(&run.parameter(own.parameters.a));
      gradients.push_back(sums.select(0, own.adapter).narrow(0, own.first_column, own.rank()));
    }
    write_gradients(parameters, gradients);
  }

  std::vector<OwnUpdate> own_;  // by number of the adapter, without those that have none
  LoraModules modules_;
  std::int64_t num_adapters_;
  bool selected_;  // x has the supervised rows alone
  bool drops_ = false;
};

RecordedAdapters::RecordedAdapters(OperatorTape& tape, const std::string& name, Value x,
                                   const std::vector<WeightUpdate>& updates)
    : updates_(std::make_shared<JoinedUpdates>(tape, name, tape.shape(x).width, updates,
                                               tape.shape(x).num_rows != tape.num_rows())) {
  const ValueShape in = tape.shape(x);
  const std::int64_t rank = total_rank(updates_->modules());
  s_ = tape.value(ValueKind::kStatistics, name + ".lora_A", {in.num_rows, rank, in.dtype});
  Operator step;
  step.inputs = {x};
  step.outputs = {s_};
  step.needs = {x};
  step.multiply_adds.of_rows = in.numel() * rank;
  step.forward = [x, updates = updates_, s = s_](OperatorContext& run) {
    if (run.batch().without_adapter) return run.set(s, {});
    run.set(s, updates->low_rank(run, run.get(x)));
  };
  step.backward = [x, updates = updates_, s = s_](OperatorContext& run) {
    const at::Tensor grad = run.gradient(s);
    run.when_available(x, [=, &run](const at::Tensor& rows) {
      run.weight_grads().run_or_defer([=, &run] { updates->write_a(run, grad, rows); });
    });
  };
  tape.record(std::move(step));
}

std::int64_t RecordedAdapters::multiply_adds(std::int64_t num_rows) const {
  std::int64_t most = 0;
  for (const OwnUpdate& own : updates_->own()) {
    most = std::max(most, lora_multiply_adds(num_rows, own.modules));
  }
  return most;
}

at::Tensor RecordedAdapters::forward(OperatorContext& run, const at::Tensor& x,
                                     const Parameter& weight, const Parameter* bias,
                                     const at::Tensor& residual) const {
  const at::Tensor s = run.get(s_);
  return lora_linear_forward(x, weight, bias, s, updates_->modules(), updates_->b_of(run),
                             run.options().gemm_timing, residual, updates_->rows_of(run));
}

Fp8LoraForward RecordedAdapters::fp8_forward(OperatorContext& run) const {
  return {run.get(s_), updates_->modules(), updates_->b_of(run), updates_->rows_of(run)};
}

at::Tensor RecordedAdapters::backward_low_rank(OperatorContext& run,
                                               const at::Tensor& grad_output) const {
  at::Tensor grad_s = lora_linear_backward_low_rank(grad_output, run.get(s_), updates_->modules(),
                                                    updates_->b_of(run), run.options().gemm_timing,
                                                    updates_->rows_of(run));
  run.set_gradient(s_, grad_s);
  return grad_s;
}

Fp8LoraBackward RecordedAdapters::fp8_backward(OperatorContext& run,
                                               const at::Tensor& grad_output) const {
  at::Tensor grad_s = backward_low_rank(run, grad_output);
  if (updates_->drops(run)) return {std::move(grad_s), {}, {}};
  return {
      std::move(grad_s), updates_->joined_a(run), updates_->modules(), {}, updates_->rows_of(run)};
}

void RecordedAdapters::add_dropped_backward_x(const OperatorContext& run, const at::Tensor& grad_s,
                                              const at::Tensor& grad_x) const {
  if (updates_->drops(run)) updates_->add_backward_x(run, grad_s, grad_x);
}

at::Tensor RecordedAdapters::backward(OperatorContext& run, const Parameter& weight,
                                      const at::Tensor& grad_output, const at::Tensor& sum) const {
  const GemmTiming& timing = run.options().gemm_timing;
  const at::Tensor grad_s = backward_low_rank(run, grad_output);
  if (!updates_->drops(run)) {
    return lora_linear_backward_input(grad_output, weight, grad_s, updates_->joined_a(run),
                                      updates_->modules(), {}, timing, sum, updates_->rows_of(run));
  }
  const at::Tensor grad_x = linear_backward_input(grad_output, weight, timing, sum);
  updates_->add_backward_x(run, grad_s, grad_x);
  return grad_x;
}

}  // namespace packtrain
