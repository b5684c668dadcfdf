// What a run tells of itself: one record a step, as a line for people, a JSON line for programs
// and gauges for Prometheus.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace packtrain {

// Mean loss of a source's supervised tokens, each counted once whatever it weighs.
struct SourceLoss {
  std::string source;
  double loss = 0;
};

// How a step's tokens were spread over a model's experts: each real token counts once for every
// expert it went to, in every layer; in the last layer supervised tokens alone, unless all are
// needed for the auxiliary loss.
struct ExpertLoad {
  std::vector<double> tokens;  // of each expert, all layers together
  double max = 0;              // of any layer and expert, over the layer's mean
  double min = 0;
  std::optional<double>
      auxiliary_loss;  // without its coefficient, not part of `loss`; if there is one
};

struct StepRecord {
  std::int64_t step = 0;  // 1 after the first optimizer step
  std::int64_t epoch = 0;
  double loss = 0;
  double grad_norm = 0;
  double learning_rate = 0;
  std::int64_t num_examples = 0;
  std::int64_t num_tokens = 0;  // real tokens, never pads
  std::int64_t num_loss_tokens = 0;
  std::int64_t num_skipped_steps = 0;  // 1 where the update was refused
  double step_time_s = 0;
  double tokens_per_second = 0;
  double tokens_per_second_per_device = 0;
  double model_tflops_per_device = 0;
  double mfu = 0;  // 0 where the device's peak is unknown
  double padding_fraction = 0;
  double fill = 0;             // tokens over the token budget
  double token_imbalance = 1;  // slowest rank over mean, tokens
  double cost_imbalance = 1;   // the same, planned cost
  double data_wait_s = 0;
  double gather_wait_s = 0;      // compute stood still for weights
  double reduce_wait_s = 0;      // for gradients, until the last is summed
  double comm_wait_s = 0;        // for either
  double checkpoint_wait_s = 0;  // the steps stood still for saving
  std::int64_t num_failed_saves = 0;
  std::int64_t checkpoint_step = 0;  // of the newest checkpoint
  std::int64_t peak_memory_bytes = 0;
  // Between steps: of tensors that stay, and of the allocator with what it keeps for the next step.
  std::int64_t allocated_memory_bytes = 0;
  std::int64_t reserved_memory_bytes = 0;
  // Of the sources the step has tokens of; empty when the data has a single source.
  std::vector<SourceLoss> loss_by_source = {};
  std::optional<ExpertLoad> experts = {};  // of a model that has some
};

struct EvaluationRecord {
  std::int64_t step = 0;
  double loss = 0;
  double perplexity = 0;
  std::int64_t num_examples = 0;
  std::int64_t num_tokens = 0;
  std::int64_t num_loss_tokens = 0;
  std::vector<SourceLoss> loss_by_source = {};  // as in StepRecord
};

struct MetricsOptions {
  bool serve = true;
  std::string address = "127.0.0.1";
  int port = 19400;        // this rank's first choice; the next free one if taken (at most 100 on)
  std::string run_folder;  // metrics.jsonl (rank 0)
  std::string run_name;    // label `run`
  std::string host;        // label `host`
  int rank = 0;
  std::int64_t total_steps = 0;  // of the whole run; 0 = unknown: no progress, no time left
  // The step resumed from, 0 for a new run: lines of later steps are cut from metrics.jsonl.
  std::int64_t first_step = 0;
};

// One rank's metrics: Prometheus registry (all ranks) and, on rank 0, the step line on stderr and
// metrics.jsonl. The calling thread never waits for a reader of the endpoint.
class Metrics {
 public:
  // Never throws for a missing port (a warning); throws Error(kConfig) when `address` is no
  // address of this machine, Error(kInternal) when metrics.jsonl cannot be opened or cut.
  static std::unique_ptr<Metrics> start(const MetricsOptions& options);
  virtual ~Metrics() = default;

  // Both throw Error(kInternal) when metrics.jsonl cannot be written.
  virtual void step(const StepRecord& record) = 0;
  virtual void evaluation(const EvaluationRecord& record) = 0;
  // "127.0.0.1:19400", or nothing when no endpoint runs.
  virtual std::optional<std::string> endpoint() const = 0;
};

// Writes `run_folder`/metrics-targets.json, a Prometheus file_sd file: one target a rank with run,
// host and rank labels. Called by rank 0 with every rank's endpoint ("" = none) and host. An
// endpoint on all interfaces (0.0.0.0, ::) is written with the rank's host name. The metrics carry
// these labels as well: the scrape job needs `honor_labels: true`, else Prometheus keeps both, one
// named exported_run. Throws Error(kInternal) when the file cannot be written.
void write_metrics_targets(const std::string& run_folder, const std::string& run_name,
                           const std::vector<std::string>& endpoints,
                           const std::vector<std::string>& hosts);

// "step 12/400 (3.0 %)  loss 3.214  norm 0.91  lr 9.8e-06  12.3k tok/s  ...  12 s left"
// comm: the share of the step in which computing stood still for communication. What is unknown or
// nothing (total_steps, mfu, comm, memory: 0; seconds_left: negative) is left out.
std::string format_step_line(const StepRecord& record, std::int64_t total_steps,
                             double seconds_left);

}  // namespace packtrain
