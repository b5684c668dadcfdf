// The state of a run in a checkpoint, except for tensors, and the search for checkpoints. Needs no
// libtorch.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace packtrain {

// A checkpoint that checkpoint.resume named when a process started from it.
struct NamedCheckpoint {
  std::string folder;  // absolute path at that time
  std::int64_t step = 0;
  std::string digest;  // of its files: the same for a copy of it
};

// Everything that a resumed run needs except tensors. It is stored in the manifest.
struct TrainingState {
  std::int64_t step = 0;  // optimizer steps done; the next one has this index from 0
  std::int64_t epoch = 0;
  std::uint64_t seed = 0;
  std::int64_t num_ranks = 1;    // number of ranks that wrote a file
  std::int64_t total_steps = 0;  // length of the schedule
  std::string config_hash;
  std::string data_fingerprint;  // of the training store
  std::string config_yaml;       // resolved configuration
  std::string model_config;      // config.json text of the model (Hugging Face keys)
  std::string plan_header;       // JSON object of training/plan_header; empty in older checkpoints
  std::string guard;             // JSON object of training/step_guard; empty in older checkpoints
  std::optional<double> validation_loss = std::nullopt;  // of these weights, when known
  std::vector<double> best_losses = {};                  // lowest of the run so far, ascending
  std::string validation_set = {};  // name of the evaluation set whose losses these are, or empty
  std::string early_stopping = {};  // JSON object of training/early_stopping, or empty
  bool evaluation_due = false;      // evaluation of these weights is due: they are saved before it
  bool samples_due = false;         // samples of these weights are due
  // JSON object of models/adapters/lora_text: the checkpoint holds an adapter and no other weights.
  // Empty: a whole model.
  std::string adapter = {};
  std::string base_digest = {};  // of the weights that the adapter was trained over
  // Digest of the model whose files of log-probabilities are the reference, or empty.
  std::string reference_digest = {};
  bool weights_only = false;  // no moments: a run cannot resume from it
  // Those that this checkpoint descends from, oldest first. Older checkpoints lack them.
  std::vector<NamedCheckpoint> resumed_from = {};
};

class ManifestCache;

// Which checkpoints to keep in addition to the one just saved: the newest, those with the lowest
// validation loss, and those that a command reads.
struct Retention {
  int num_newest = 3;
  int num_best = 0;
  std::vector<std::int64_t> steps_in_use = {};
  ManifestCache* manifests = nullptr;  // what was read before, or nothing
};

// The folder of a run's checkpoints, the `root` of the functions below.
std::string checkpoints_folder(const std::string& run_folder);

// The newest folder of `root` with a valid manifest and files of the right sizes, or nothing. Logs
// a warning for each folder that it passes over. `step-N.old` counts when a crash left no usable
// `step-N`. Not collective.
std::optional<std::string> find_latest_checkpoint(const std::string& root);

// The same. Throws Error(kCheckpoint) where `root` has checkpoints and none of them is whole.
std::optional<std::string> find_whole_checkpoint(const std::string& root);

// Reads the manifest only. Throws Error(kCheckpoint) with the folder and the fault.
TrainingState read_checkpoint_state(const std::string& folder);

bool is_checkpoint(const std::string& folder);  // has a manifest

}  // namespace packtrain
