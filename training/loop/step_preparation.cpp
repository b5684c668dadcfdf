#include "training/loop/step_preparation.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <utility>

#include "framework/config/objective_settings.h"
#include "framework/config/offload.h"
#include "framework/core/error.h"
#include "models/estimates/flops.h"
#include "models/ops/experts/grouped_matmul.h"
#include "models/ops/linear/lora_cuda.h"
#include "training/plan/cost_measurement.h"
#include "training/setup/model_source.h"
#include "training/steps/rehearsal.h"
#include "training/steps/step_details.h"
#include "training/steps/step_graphs.h"

namespace packtrain {

void prepare_costs(const RunInputs& inputs, const PlannedRun& run, World& world) {
  if (!run.plan->wants_measured_cost()) return;
  MeasuredCost measured = measure_cost(*run.plan, *inputs.stores.all, run.first_step(), *run.model,
                                       *inputs.device.device, world);
  run.plan->set_measured_cost(measured.cost, std::move(measured.speeds));
}

namespace {

// A step that takes longer gains nothing from being run once before. About 15 seconds of a GPU.
constexpr double kMaxRehearsedFlops = 7.5e15;

// True when products of several adapters are of each one's rows, whose numbers the host reads.
bool slices_rows(const DecoderConfig& decoder) {
  if (decoder.adapter == nullptr || decoder.adapter->several.empty()) return false;
  if (decoder.adapter->drops() || !grouped_gemm_sizes_stay_on_device()) return true;
  std::map<std::string, LoraModules> modules;  // of all adapters, by weight
  for (const AdapterTargets& own : decoder.adapter->several) {
    for (const auto& [weight, of_weight] : own.weights) {
      LoraModules& all = modules[weight];
      all.insert(all.end(), of_weight.begin(), of_weight.end());
    }
  }
  return !std::ranges::all_of(
      modules, [](const auto& of_weight) { return lora_kernels_take_ranks(of_weight.second); });
}

bool is_long(const Rehearsal& rehearsal, const DecoderConfig& decoder) {
  const auto num_rows = static_cast<double>(rehearsal.sizes.num_rows);
  const double squares = num_rows * static_cast<double>(rehearsal.sizes.longest_sequence);
  return training_flops(decoder, num_rows, squares) > kMaxRehearsedFlops;
}

}  // namespace

// On the CPU nothing depends on sizes. Deterministic runs use the heuristic's choice.
void prepare_sizes(const Config& config, const RunInputs& inputs, const PlannedRun& run,
                   World& world) {
  const DecoderConfig& decoder = inputs.source.decoder;
  Device& device = *inputs.device.device;
  if (device.kind() == DeviceKind::kCpu || config.precision.deterministic) return;
  SizeOptions options;
  options.vocab_size = decoder.vocab_size;
  options.hidden_size = decoder.hidden_size;
  options.element_bytes = config.precision.compute == Precision::kFloat32 ? 4 : 2;
  options.narrow_gradients = config.precision.reduce != Precision::kFloat32;
  options.sums_micro_batches = run.model->slots().sums_micro_batches();
  RehearsalPlan plan = plan_rehearsals(run.plan->planner(), *inputs.stores.all, run.first_step(),
                                       run.total_steps(), options);
  if (plan.rehearsals.empty()) return;
  std::erase_if(plan.rehearsals, [&](const auto& each) { return is_long(each, decoder); });
  run.model->operator_options().min_planned_rows = plan.largest_num_rows;
  run.model->operator_options().min_planned_keys = plan.largest_num_keys;
  const std::size_t num_run =
      rehearse(plan, config.batch.strategy, *inputs.stores.all, *run.model, device, world);
  for (const Rehearsal& rehearsal : std::span(plan.rehearsals).first(num_run)) {
    run.memory->add({.num_rows = rehearsal.sizes.num_rows,
                     .num_supervised_rows = rehearsal.sizes.num_supervised_rows,
                     .num_sequences = rehearsal.sizes.num_sequences,
                     .largest_num_rows = plan.largest_num_rows,
                     .num_keys = rehearsal.sizes.num_keys,
                     .largest_num_keys = plan.largest_num_keys,
                     .several_micro_batches = rehearsal.accumulated});
  }
}

bool uses_graphs(const Config& config, const RunInputs& inputs, const PlannedRun& run,
                 const World& world) {
  const DecoderConfig& decoder = inputs.source.decoder;
  const Device& device = *inputs.device.device;
  if (!should_use_graphs(config.run.cuda_graphs, decoder,
                         run.plan->layout().max_tokens_per_micro_batch)) {
    return false;
  }
  const bool possible =
      device.kind() == DeviceKind::kCuda && world.size() == 1 &&
      all_attention_is(AttentionBackend::kCudnn, decoder, config.precision.compute, device) &&
      graphs_support(decoder, grouped_gemm_sizes_stay_on_device()) &&
      !offloads_activations(config.memory.offload) && !config.metrics.example_losses &&
      !trains_groups(config.objective) && !StepDetails(*inputs.stores.all, decoder).by_source() &&
      !slices_rows(decoder) && config.run.trace_steps == 0;
  if (!possible && config.run.cuda_graphs == CudaGraphs::kOn) {
    throw Error(ErrorCategory::kConfig,
                "run.cuda_graphs is on, but graphs serve one rank on a GPU with cuDNN's attention "
                "(bf16, not deterministic), on Hopper where the model has experts, one source of "
                "data, objective.kind: next_token, without a gated delta rule, dropout of several "
                "adapters, memory.offload: activations, metrics.example_losses and run.trace_steps",
                "Set run.cuda_graphs to auto, or change what is in the way.");
  }
  return possible;
}

}  // namespace packtrain
