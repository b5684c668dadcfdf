// What a run tells of itself: one record a step, as a line for people, a JSON line for programs
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
  std::int64_t num_padding_tokens = 0;  // rows computed that hold no real token
  std::int64_t num_skipped_steps = 0;   // 1 where the update was refused
  std::int64_t num_out_of_memory = 0;   // attempts at it that were dropped: some rank ran out
  double step_time_s = 0;
  double tokens_per_second = 0;
  double tokens_per_second_per_device = 0;
  double model_tflops_per_device = 0;
  double mfu = 0;  // 0 where the device's peak is unknown
  double padding_fraction = 0;
  double fill = 0;             // tokens over the token budget
  double token_imbalance = 1;  // slowest rank over mean, tokens
  double cost_imbalance = 1;   // the same, planned cost
  // The step's parts on the compute stream, waits for gathers and reductions included. Of a step
  // that ran as a CUDA graph `forward_s` is both passes.
  double forward_s = 0;
  double backward_s = 0;
  double optimizer_s = 0;  // norm, clipping and update
  double data_wait_s = 0;
  double gather_wait_s = 0;      // compute stood still for weights
  double reduce_wait_s = 0;      // for gradients, until the last is summed
  double comm_wait_s = 0;        // for either
  double checkpoint_wait_s = 0;  // the steps stood still for saving
  std::int64_t num_failed_saves = 0;
  std::int64_t checkpoint_step = 0;   // of the newest checkpoint
  double checkpoint_unix_time_s = 0;  // when it was complete; before the first: when the run began
  double checkpoint_duration_s = 0;   // of writing it, beside the steps or not
  std::int64_t peak_memory_bytes = 0;
  // Between steps: of tensors that stay, and of the allocator with what it keeps for the next step.
  std::int64_t allocated_memory_bytes = 0;
  std::int64_t reserved_memory_bytes = 0;
  std::int64_t communication_memory_bytes = 0;  // weight and gradient slots, not in the two above
  std::int64_t num_allocation_retries = 0;  // the allocator had to give memory back and ask again
  // Over the latest steps in which ranks were compared: the rank whose own time in a phase is the
  // largest multiple of the ranks' median. Phase: "data" or "compute", "" before the first.
  std::int64_t slowest_rank = 0;
  double slowest_ratio = 1;
  std::string slowest_phase = {};
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
  // Where evaluation sets have names: this one's, and the records of all, in the order of the
  // configuration. This record is that of the set whose loss decides.
  std::string set = {};
  std::vector<EvaluationRecord> all_sets = {};
};

enum class RunState { kRunning, kDone, kStopped, kFailed };

struct MetricsOptions {
  bool serve = true;
  std::string address = "127.0.0.1";
  int port = 19400;        // this rank's first choice; the next free one if taken (at most 100 on)
  std::string run_folder;  // metrics.jsonl (rank 0)
  std::string run_name;    // label `run`
  std::string host;        // label `host`
  int rank = 0;
  std::int64_t total_steps = 0;    // of the whole run; 0 = unknown: no progress, no time left
  std::int64_t num_bad_lines = 0;  // left out when the training stores were made
  std::int64_t num_restarts = 0;   // of this run by its launcher
  std::map<std::string, std::string> facts;                  // labels of packtrain_run_info
  std::map<std::string, std::int64_t> planned_memory_bytes;  // by purpose
  // What keeps the run from going on, "" for nothing: for /healthz, called on the server's thread.
  std::function<std::string()> trouble;
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
  // How the run ended, and why if it failed; nothing may be told after it. Returns when the
  // endpoint was scraped once more, but after `last_scrape_timeout_s` at the latest. Ranks of a run
  // that failed stay just as long, so that they end together.
  virtual void end(RunState state, const std::string& reason, double last_scrape_timeout_s) = 0;
  // "127.0.0.1:19400", or nothing when no endpoint runs.
  virtual std::optional<std::string> endpoint() const = 0;
};

// Writes `run_folder`/metrics-targets.json, a Prometheus file_sd file: one target a rank with run,
// host and rank labels. Called by rank 0 with every rank's endpoint ("" = none) and host. An
// endpoint on all interfaces (0.0.0.0, ::) is written with the rank's host name. The metrics carry
// these labels as well: the scrape job needs `honor_labels: true`, else Prometheus keeps both, one
// named exported_run. Throws Error(kInternal) when the file cannot be written. With the environment
// variable PACKTRAIN_TARGETS_FOLDER also there, as NAME-HASH.json: Prometheus takes patterns for
// the last part of a path only. Where that cannot be written there is a warning.
void write_metrics_targets(const std::string& run_folder, const std::string& run_name,
                           const std::vector<std::string>& endpoints,
                           const std::vector<std::string>& hosts);

// The run is over: nobody is to look for its ranks. As above, without a target; the file in
// PACKTRAIN_TARGETS_FOLDER is removed.
void remove_metrics_targets(const std::string& run_folder, const std::string& run_name);

// "step 12/400 (3.0 %)  loss 3.214  norm 0.91  lr 9.8e-06  12.3k tok/s  ...  12 s left"
// comm: the share of the step in which computing stood still for communication; imbalance: what the
// slowest rank's planned cost has more than the mean. What is unknown or nothing (total_steps, mfu,
// imbalance, comm, memory: 0; seconds_left: negative) is left out; of what does not fit into
// `width` characters, the less important.
std::string format_step_line(const StepRecord& record, std::int64_t total_steps,
                             double seconds_left,
                             std::size_t width = std::numeric_limits<std::size_t>::max());

}  // namespace packtrain
