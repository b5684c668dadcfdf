// Where a run is: all that a checkpoint holds besides tensors; and finding it, without libtorch.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace packtrain {

// Everything but tensors that a resumed run needs. Written to and read from the manifest.
struct TrainingState {
  std::int64_t step = 0;  // optimizer steps done; the next one is `step`
  std::int64_t epoch = 0;
  std::uint64_t seed = 0;
  std::int64_t num_ranks = 1;    // that wrote a file of it
  std::int64_t total_steps = 0;  // of the schedule
  std::string config_hash;
  std::string data_fingerprint;  // of the training store
  std::string config_yaml;       // resolved configuration
  std::string model_config;      // config.json text of the model (Hugging Face keys)
  std::string plan_header;       // JSON object of training/plan_header; empty in older checkpoints
  std::string guard;             // JSON object of training/step_guard; the same
  std::optional<double> validation_loss = std::nullopt;  // of these weights, where it is known
  std::vector<double> best_losses = {};                  // lowest of the run so far, ascending
  std::string validation_set = {};  // name of the evaluation set whose losses these are, or empty
  std::string early_stopping = {};  // JSON object of training/early_stopping, or empty
  bool evaluation_due = false;      // of these weights, which are saved first
  bool samples_due = false;         // the same
  bool weights_only = false;        // holds no moments: nothing goes on from it
};

// Which checkpoints stay, besides the one just saved: the newest ones, and those of
// the lowest validation loss.
struct Retention {
  int num_newest = 3;
  int num_best = 0;
};

// Where a run keeps its checkpoints: the `root` of what follows.
std::string checkpoints_folder(const std::string& run_folder);

// The newest folder of `root` with a manifest that verifies (sizes), or nothing; logs a warning for
// each one passed over. `step-N.old` counts where a crash while replacing left no usable `step-N`.
// Not collective.
std::optional<std::string> find_latest_checkpoint(const std::string& root);

// Reads the manifest alone. Throws Error(kCheckpoint) naming the folder and what is wrong.
TrainingState read_checkpoint_state(const std::string& folder);

bool is_checkpoint(const std::string& folder);  // has a manifest

}  // namespace packtrain
