// The metrics of a run: one record for each step, as a line for people, a JSON line for programs,
// and gauges for Prometheus.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace packtrain {

// Mean loss of a source's supervised tokens. All tokens have weight 1 here.
struct SourceLoss {
  std::string source;
  double loss = 0;
};

// The mean of an objective's statistic (models/objectives), such as the reward of chosen answers.
struct ObjectiveStatistic {
  std::string name;
  double value = 0;
};

// The step of one adapter, of several that are trained together.
struct AdapterRecord {
  std::string name;
  double loss = 0;
  double grad_norm = 0;
  double learning_rate = 0;
  std::int64_t num_tokens = 0;
  std::int64_t num_loss_tokens = 0;
  std::int64_t num_skipped_steps = 0;  // 1 when its update was skipped
};

// How a step's tokens were distributed over a model's experts. Each real token counts once for
// every expert that it was routed to, in every layer. The last layer counts supervised tokens only,
// unless the auxiliary loss needs all.
struct ExpertLoad {
  std::vector<double> tokens;  // of each expert, summed over layers
  double max = 0;              // maximum over layers and experts, relative to the layer's mean
  double min = 0;
  std::optional<double>
      auxiliary_loss;  // without its coefficient, not part of `loss`; nothing without one
};

// The update of an optimizer's Hessian estimate after the step.
struct HessianRecord {
  double grad_norm = 0;  // of the gradient whose squares it takes
  // Elements of the weights whose step is not clipped. Nothing for a skipped step.
  std::optional<double> unclipped_fraction = {};
  std::int64_t num_skipped = 0;  // 1 when nothing was written
};

struct StepRecord {
  std::int64_t step = 0;  // 1 after the first optimizer step
  std::int64_t epoch = 0;
  double loss = 0;
  double grad_norm = 0;
  double learning_rate = 0;
  std::int64_t num_examples = 0;
  std::int64_t num_groups = 0;  // of a store with groups, else 0
  std::int64_t num_tokens = 0;  // real tokens, without padding
  std::int64_t num_loss_tokens = 0;
  std::int64_t num_padding_tokens = 0;  // computed rows without a real token
  std::int64_t num_skipped_steps = 0;   // 1 when the update was skipped
  std::int64_t num_out_of_memory = 0;   // discarded attempts, because a rank ran out of memory
  double step_time_s = 0;
  double tokens_per_second = 0;
  double tokens_per_second_per_device = 0;
  double model_tflops_per_device = 0;
  double mfu = 0;  // 0 when the device's peak is unknown
  double padding_fraction = 0;
  double fill = 0;             // tokens over the token budget
  double token_imbalance = 1;  // tokens of the slowest rank / mean
  double cost_imbalance = 1;   // the same for the planned cost
  // Parts of the step on the compute stream, with waits for gathers and reductions. For a step that
  // ran as a CUDA graph, `forward_s` includes backward.
  double forward_s = 0;
  double backward_s = 0;
  double optimizer_s = 0;  // norm, clipping and update
  double data_wait_s = 0;
  double gather_wait_s = 0;      // waits of the compute stream for weights
  double reduce_wait_s = 0;      // waits for gradients, until the last is reduced
  double comm_wait_s = 0;        // waits for either
  double checkpoint_wait_s = 0;  // time that steps waited for a save
  std::int64_t num_failed_saves = 0;
  std::int64_t checkpoint_step = 0;  // of the newest checkpoint
  // when it was complete; before the first one: start of the run
  double checkpoint_unix_time_s = 0;
  double checkpoint_duration_s = 0;  // time to write it, with or without training in parallel
  std::int64_t peak_memory_bytes = 0;
  // Between steps: memory of tensors that stay, and of the allocator with cached blocks.
  std::int64_t allocated_memory_bytes = 0;
  std::int64_t reserved_memory_bytes = 0;
  std::int64_t communication_memory_bytes = 0;  // weight and gradient slots, not in the two above
  // times that the allocator had to free cached blocks first
  std::int64_t num_allocation_retries = 0;
  // Lines of this rank's metrics.jsonl and example losses that wait for a write, or are lost.
  // Metrics adds those of metrics.jsonl.
  std::int64_t num_unwritten_lines = 0;
  // Of the latest steps in which ranks were compared. The slowest rank has the largest ratio of its
  // own time in a phase to the median of ranks. Phase: "data" or "compute", "" before the first.
  std::int64_t slowest_rank = 0;
  double slowest_ratio = 1;
  std::string slowest_phase = {};
  // For each source with tokens in the step. Empty when the data has a single source.
  std::vector<SourceLoss> loss_by_source = {};
  // Means of an objective of groups. Statistics that the step has no examples of are left out.
  std::vector<ObjectiveStatistic> objective = {};
  std::optional<ExpertLoad> experts = {};     // for a model with experts
  std::optional<HessianRecord> hessian = {};  // of the steps that update a Hessian estimate
  // Of those that have a step. `loss` is then the mean of theirs, `grad_norm` that of all, and
  // `learning_rate` that of the first adapter. Empty when several are not trained.
  std::vector<AdapterRecord> adapters = {};
};

struct EvaluationRecord {
  std::int64_t step = 0;
  double loss = 0;
  std::optional<double> perplexity = {};  // nothing for an objective of groups
  std::int64_t num_examples = 0;
  std::int64_t num_groups = 0;
  std::int64_t num_tokens = 0;
  std::int64_t num_loss_tokens = 0;
  std::vector<SourceLoss> loss_by_source = {};     // as in StepRecord
  std::vector<ObjectiveStatistic> objective = {};  // as in StepRecord
  // When evaluation sets have names: the name of this set, and the records of all sets in the order
  // of the configuration. This record is that of the set whose loss decides.
  std::string set = {};
  std::vector<EvaluationRecord> all_sets = {};
};

// Numbers that a command printed for the weights after `step` steps (run.evaluate_command).
struct CommandRecord {
  std::int64_t step = 0;
  std::vector<std::pair<std::string, double>> values = {};  // by name, finite
};

enum class RunState { kRunning, kDone, kStopped, kFailed };

struct MetricsOptions {
  bool serve = true;
  std::string address = "127.0.0.1";
  int port = 19400;  // this rank's first choice; the next free one if in use (at most 100 further)
  std::string run_folder;  // metrics.jsonl (rank 0)
  std::string run_name;    // label `run`
  std::string host;        // label `host`
  int rank = 0;
  std::int64_t total_steps = 0;  // of the whole run; 0 = unknown: no progress and no remaining time
  std::int64_t num_bad_lines = 0;            // lines skipped when the training stores were made
  std::int64_t num_restarts = 0;             // of this run, by its launcher
  std::map<std::string, std::string> facts;  // labels of packtrain_run_info
  std::map<std::string, std::int64_t> planned_memory_bytes;  // by purpose
  // Returns why the run cannot continue, or "". For /healthz, called on the server's thread.
  std::function<std::string()> trouble;
  // The step resumed from, 0 for a new run. Lines of later steps are removed from metrics.jsonl.
  std::int64_t first_step = 0;
};

// Metrics of one rank: a Prometheus registry, and on rank 0 the step line on stderr and
// metrics.jsonl. The calling thread never waits for clients of the endpoint.
class Metrics {
 public:
  // A missing port is only a warning. Throws Error(kConfig) when `address` is not an address of
  // this machine. Throws Error(kConfig) when metrics.jsonl cannot be opened or truncated.
  static std::unique_ptr<Metrics> start(const MetricsOptions& options);
  virtual ~Metrics() = default;

  // Where metrics.jsonl cannot be written, lines wait (metrics_file.h).
  virtual void step(const StepRecord& record) = 0;
  virtual void evaluation(const EvaluationRecord& record) = 0;
  virtual void command(const CommandRecord& record) = 0;  // of an earlier or the latest step
  // Sets how the run ended, with the reason of a failure. No other function may be called after it.
  // Returns when the endpoint was scraped once more, but at most after `last_scrape_timeout_s`.
  // Ranks of a failed run wait for the whole time, so that they end together.
  virtual void end(RunState state, const std::string& reason, double last_scrape_timeout_s) = 0;
  // "127.0.0.1:19400", or nothing without an endpoint.
  virtual std::optional<std::string> endpoint() const = 0;
};

// Writes `run_folder`/metrics-targets.json, a Prometheus file_sd file with one target for each rank
// and the labels run, host and rank. Rank 0 calls it with every rank's endpoint ("" = none) and
// host. An endpoint on all interfaces (0.0.0.0, ::) is written with the rank's host name. The
// metrics have these labels as well, so the scrape job needs `honor_labels: true`. Otherwise
// Prometheus keeps both, one with the name exported_run. A file that cannot be written is a
// warning.
// With the environment variable PACKTRAIN_TARGETS_FOLDER it is also written there as
// NAME-HASH.json, because Prometheus accepts patterns only in the last part of a path.
void write_metrics_targets(const std::string& run_folder, const std::string& run_name,
                           const std::vector<std::string>& endpoints,
                           const std::vector<std::string>& hosts);

// Called when the run is over: writes the file above without targets, and removes the file in
// PACKTRAIN_TARGETS_FOLDER.
void remove_metrics_targets(const std::string& run_folder, const std::string& run_name);

// "step 12/400 (3.0 %)  loss 3.214  norm 0.91  lr 9.8e-06  12.3k tok/s  ...  12 s left"
// comm: fraction of the step in which compute waited for communication. imbalance: planned cost of
// the slowest rank above the mean. Unknown or zero values are left out (total_steps, mfu,
// imbalance, comm, memory: 0; seconds_left: negative). `validation_loss`: of the latest evaluation
// before the step. When the line does not fit into `width`
// characters, less important parts are left out.
std::string format_step_line(const StepRecord& record, std::int64_t total_steps,
                             double seconds_left,
                             std::size_t width = std::numeric_limits<std::size_t>::max(),
                             std::optional<double> validation_loss = std::nullopt);

}  // namespace packtrain
