#include "models/layers/recorded_adapters.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <algorithm>
#include <utility>

#include "models/block/operator_context.h"
#include "models/ops/gradient.h"
#include "models/ops/linear/lora.h"
#include "models/ops/linear/lora_linear.h"

namespace packtrain {

struct AdapterUpdate {
  WeightUpdate update;
  LoraParameters parameters;

  const LoraModules& modules() const { return *update.modules; }
  std::int64_t rank() const { return total_rank(modules()); }
  std::vector<const Parameter*> b_of(const OperatorContext& run) const {
    std::vector<const Parameter*> b;
    for (const ParameterId id : parameters.b) b.push_back(&run.parameter(id));
    return b;
  }
};

namespace {

// The rows of one adapter.
struct Slice {
  std::int64_t begin = 0;
  std::int64_t numel = 0;

  at::Tensor of(const at::Tensor& rows) const { return rows.narrow(0, begin, numel); }
};

// All rows are of the first adapter where the batch does not say.
Slice slice_of(const DeviceBatch& batch, bool selected, std::size_t adapter,
               std::int64_t num_rows) {
  const std::vector<std::int64_t>& begins = selected ? batch.adapter_loss_rows : batch.adapter_rows;
  if (begins.empty()) return adapter == 0 ? Slice{0, num_rows} : Slice{};
  return {begins.at(adapter), begins.at(adapter + 1) - begins.at(adapter)};
}

LoraDropout dropout_of(const DeviceBatch& batch, bool selected, double probability,
                       const Slice& slice) {
  if (probability == 0 || !batch.row_seeds.defined()) return {};
  const at::Tensor seeds =
      selected ? batch.row_seeds.index_select(0, batch.loss_index) : batch.row_seeds;
  return {slice.of(seeds), probability};
}

at::Tensor columns(const at::Tensor& s, const Slice& slice, std::int64_t rank) {
  return slice.of(s).narrow(1, 0, rank);
}

// s of all adapters.
at::Tensor low_rank_rows(const OperatorContext& run, const std::vector<AdapterUpdate>& all,
                         const at::Tensor& x, std::int64_t rank, bool selected) {
  at::Tensor s = at::empty({x.size(0), rank}, x.options());
  for (std::size_t a = 0; a < all.size(); ++a) {
    const AdapterUpdate& one = all[a];
    const Slice slice = slice_of(run.batch(), selected, a, x.size(0));
    if (one.update.modules == nullptr || slice.numel == 0) continue;
    const LoraDropout dropout = dropout_of(run.batch(), selected, one.update.dropout, slice);
    columns(s, slice, one.rank())
        .copy_(lora_low_rank(slice.of(x), run.parameter(one.parameters.a), one.modules(), dropout,
                             run.options().gemm_timing));
  }
  return s;
}

// Writes dA of all adapters.
void write_a(const OperatorContext& run, const std::vector<AdapterUpdate>& all,
             const at::Tensor& grad_s, const at::Tensor& x, bool selected) {
  for (std::size_t a = 0; a < all.size(); ++a) {
    const AdapterUpdate& one = all[a];
    if (one.update.modules == nullptr) continue;
    const Parameter& parameter = run.parameter(one.parameters.a);
    const Slice slice = slice_of(run.batch(), selected, a, x.size(0));
    if (slice.numel == 0) {
      write_zero_gradient(parameter);
      continue;
    }
    const LoraDropout dropout = dropout_of(run.batch(), selected, one.update.dropout, slice);
    lora_backward_a(columns(grad_s, slice, one.rank()), slice.of(x), parameter, one.modules(),
                    dropout, run.options().gemm_timing);
  }
}

}  // namespace

RecordedAdapters::RecordedAdapters(OperatorTape& tape, const std::string& name, Value x,
                                   std::vector<WeightUpdate> updates)
    : selected_(tape.shape(x).num_rows != tape.num_rows()) {
  const ValueShape in = tape.shape(x);
  auto list = std::make_shared<std::vector<AdapterUpdate>>();
  std::int64_t rank = 0;
  for (WeightUpdate& update : updates) {
    LoraParameters parameters;
    if (update.modules != nullptr) {
      const int number = static_cast<int>(list->size());
      parameters = declare_lora(tape, name, *update.modules, in.width, update.adapter, number);
      rank = std::max(rank, total_rank(*update.modules));
    }
    list->push_back({std::move(update), std::move(parameters)});
  }
  updates_ = list;
  s_ = tape.value(ValueKind::kStatistics, name + ".lora_A", {in.num_rows, rank, in.dtype});
  const bool selected = selected_;
  Operator step;
  step.inputs = {x};
  step.outputs = {s_};
  step.needs = {x};
  step.multiply_adds.of_rows = in.numel() * rank;
  step.forward = [=, all = updates_, s = s_](OperatorContext& run) {
    run.set(s, low_rank_rows(run, *all, run.get(x), rank, selected));
  };
  step.backward = [=, all = updates_, s = s_](OperatorContext& run) {
    const at::Tensor grad = run.gradient(s);
    run.when_available(x, [=, &run](const at::Tensor& rows) {
      run.weight_grads().run_or_defer([=, &run] { write_a(run, *all, grad, rows, selected); });
    });
  };
  tape.record(std::move(step));
}

std::int64_t RecordedAdapters::multiply_adds(std::int64_t num_rows) const {
  std::int64_t most = 0;
  for (const AdapterUpdate& one : *updates_) {
    if (one.update.modules == nullptr) continue;
    most = std::max(most, lora_multiply_adds(num_rows, one.modules()));
  }
  return most;
}

void RecordedAdapters::add_to(OperatorContext& run, const at::Tensor& y) const {
  const at::Tensor s = run.get(s_);
  for (std::size_t a = 0; a < updates_->size(); ++a) {
    const AdapterUpdate& one = (*updates_)[a];
    const Slice slice = slice_of(run.batch(), selected_, a, y.size(0));
    if (one.update.modules == nullptr || slice.numel == 0) continue;
    lora_forward(slice.of(y), columns(s, slice, one.rank()), one.modules(), one.b_of(run),
                 run.options().gemm_timing);
  }
}

void RecordedAdapters::backward(OperatorContext& run, const at::Tensor& grad_output,
                                const at::Tensor& grad_x) const {
  const GemmTiming& timing = run.options().gemm_timing;
  const at::Tensor s = run.get(s_);
  const at::Tensor grad_s = at::empty_like(s);
  for (std::size_t a = 0; a < updates_->size(); ++a) {
    const AdapterUpdate& one = (*updates_)[a];
    if (one.update.modules == nullptr) continue;
    const Slice slice = slice_of(run.batch(), selected_, a, s.size(0));
    const std::vector<const Parameter*> b = one.b_of(run);
    if (slice.numel == 0) {
      for (const Parameter* parameter : b) write_zero_gradient(*parameter);
      continue;
    }
    const at::Tensor low = lora_linear_backward_low_rank(slice.of(grad_output),
                                                         columns(s, slice, one.rank()).contiguous(),
                                                         one.modules(), b, timing);
    columns(grad_s, slice, one.rank()).copy_(low);
    lora_add_backward_x(low, run.parameter(one.parameters.a), one.modules(),
                        dropout_of(run.batch(), selected_, one.update.dropout, slice), timing,
                        slice.of(grad_x));
  }
  run.set_gradient(s_, grad_s);
}

}  // namespace packtrain
