#include "framework/metrics/fields.h"

#include <array>

namespace packtrain {
namespace {

constexpr auto kGauge = MetricKind::kGauge;
constexpr auto kCounter = MetricKind::kCounter;

constexpr auto kFields = std::to_array<MetricField>({
    {"step", &StepRecord::step, kGauge, "packtrain_step", "Optimizer steps of the run so far"},
    {"epoch", &StepRecord::epoch, kGauge, "packtrain_epoch", "Epoch of the latest step"},
    {"loss", &StepRecord::loss, kGauge, "packtrain_loss",
     "Training loss of the latest step, nats per supervised token"},
    {"grad_norm", &StepRecord::grad_norm, kGauge, "packtrain_grad_norm",
     "Global gradient norm of the latest step, before clipping"},
    {"learning_rate", &StepRecord::learning_rate, kGauge, "packtrain_learning_rate",
     "Learning rate of the latest step"},
    {"num_examples", &StepRecord::num_examples, kCounter, "packtrain_examples_total",
     "Examples trained on, all ranks together"},
    {"num_tokens", &StepRecord::num_tokens, kCounter, "packtrain_tokens_total",
     "Real tokens (never pads) trained on, all ranks together"},
    {"num_loss_tokens", &StepRecord::num_loss_tokens, kCounter, "packtrain_loss_tokens_total",
     "Supervised tokens trained on, all ranks together"},
    {"num_padding_tokens", &StepRecord::num_padding_tokens, kCounter,
     "packtrain_padding_tokens_total", "Rows computed that hold no real token, all ranks together"},
    {"num_skipped_steps", &StepRecord::num_skipped_steps, kCounter, "packtrain_skipped_steps_total",
     "Steps whose update was refused: not finite, a spike, or left out after a rewind"},
    {"num_out_of_memory", &StepRecord::num_out_of_memory, kCounter, "packtrain_out_of_memory_total",
     "Attempts at steps that were dropped because a rank ran out of memory"},
    {"step_time_s", &StepRecord::step_time_s, kGauge, "packtrain_step_time_seconds",
     "Wall time of the latest step"},
    {"tokens_per_second", &StepRecord::tokens_per_second, kGauge, "packtrain_tokens_per_second",
     "Real tokens a second in the latest step, all ranks together"},
    {"tokens_per_second_per_device", &StepRecord::tokens_per_second_per_device, kGauge,
     "packtrain_tokens_per_second_per_device", "Real tokens a second and device, latest step"},
    {"model_tflops_per_device", &StepRecord::model_tflops_per_device, kGauge,
     "packtrain_model_flops_per_second_per_device", "Model FLOP/s a device, latest step",
     /*scale=*/1e12},
    {"mfu", &StepRecord::mfu, kGauge, "packtrain_mfu_ratio",
     "Model FLOP/s over the device's peak, 0 where the peak is unknown"},
    {"padding_fraction", &StepRecord::padding_fraction, kGauge, "packtrain_padding_ratio",
     "Pads over all rows computed in the latest step"},
    {"fill", &StepRecord::fill, kGauge, "packtrain_fill_ratio",
     "Tokens over the token budget of the latest step"},
    {"token_imbalance", &StepRecord::token_imbalance, kGauge, "packtrain_token_imbalance_ratio",
     "Slowest rank over the mean rank, in tokens"},
    {"cost_imbalance", &StepRecord::cost_imbalance, kGauge, "packtrain_cost_imbalance_ratio",
     "Slowest rank over the mean rank, in planned cost"},
    {"forward_s", &StepRecord::forward_s, kCounter, "packtrain_forward_seconds_total",
     "Time of forward on the compute stream, waits included; of CUDA graphs backward too"},
    {"backward_s", &StepRecord::backward_s, kCounter, "packtrain_backward_seconds_total",
     "Time of backward on the compute stream, waits included"},
    {"optimizer_s", &StepRecord::optimizer_s, kCounter, "packtrain_optimizer_seconds_total",
     "Time of norm, clipping and update on the compute stream"},
    {"data_wait_s", &StepRecord::data_wait_s, kCounter, "packtrain_data_wait_seconds_total",
     "Time spent waiting for data"},
    {"gather_wait_s", &StepRecord::gather_wait_s, kCounter, "packtrain_gather_wait_seconds_total",
     "Time computing stood still for all-gathers of weights"},
    {"reduce_wait_s", &StepRecord::reduce_wait_s, kCounter, "packtrain_reduce_wait_seconds_total",
     "Time computing stood still for reductions of gradients"},
    {"comm_wait_s", &StepRecord::comm_wait_s, kCounter, "packtrain_comm_wait_seconds_total",
     "Time computing stood still for communication"},
    {"checkpoint_wait_s", &StepRecord::checkpoint_wait_s, kCounter,
     "packtrain_checkpoint_wait_seconds_total", "Time steps stood still for saving"},
    {"num_failed_saves", &StepRecord::num_failed_saves, kCounter, "packtrain_failed_saves_total",
     "Checkpoints that could not be written"},
    {"checkpoint_step", &StepRecord::checkpoint_step, kGauge, "packtrain_checkpoint_step",
     "Optimizer steps done at the newest checkpoint"},
    {"checkpoint_unix_time_s", &StepRecord::checkpoint_unix_time_s, kGauge,
     "packtrain_checkpoint_timestamp_seconds",
     "Unix time at which the newest checkpoint was complete; of the start before the first"},
    {"checkpoint_duration_s", &StepRecord::checkpoint_duration_s, kGauge,
     "packtrain_checkpoint_duration_seconds", "Time that writing the newest checkpoint took"},
    {"peak_memory_bytes", &StepRecord::peak_memory_bytes, kGauge, "packtrain_peak_memory_bytes",
     "Most device memory in use so far"},
    {"allocated_memory_bytes", &StepRecord::allocated_memory_bytes, kGauge,
     "packtrain_allocated_memory_bytes", "Device memory of tensors, between steps"},
    {"reserved_memory_bytes", &StepRecord::reserved_memory_bytes, kGauge,
     "packtrain_reserved_memory_bytes", "Device memory taken by the allocator of tensors"},
    {"communication_memory_bytes", &StepRecord::communication_memory_bytes, kGauge,
     "packtrain_communication_memory_bytes",
     "Device memory of weight and gradient slots, apart from the allocator's"},
    {"num_allocation_retries", &StepRecord::num_allocation_retries, kCounter,
     "packtrain_allocation_retries_total",
     "Allocations for which cached device memory had to be given back first"},
    {"num_unwritten_lines", &StepRecord::num_unwritten_lines, kGauge, "packtrain_unwritten_lines",
     "Lines of metrics.jsonl and example losses that wait for a write, or are lost"},
    {"slowest_rank", &StepRecord::slowest_rank, kGauge, "packtrain_slowest_rank",
     "Rank that takes the most time of its own, when ranks were last compared"},
    {"slowest_ratio", &StepRecord::slowest_ratio, kGauge, "packtrain_slowest_ratio",
     "That rank's own time over the median of all ranks'"},
});

}  // namespace

std::span<const MetricField> step_fields() {
  return kFields;
}

}  // namespace packtrain
