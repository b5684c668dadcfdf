#include "training/loop/run.h"

#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <memory>
#include <optional>
#include <set>

#include "framework/config/adapters.h"
#include "framework/core/logging.h"
#include "training/checkpoint/checkpoint.h"
#include "training/guards/exit_deadline.h"
#include "training/guards/folder_in_use.h"
#include "training/guards/run_folder_lock.h"
#include "training/guards/watchdog.h"
#include "training/loop/follower.h"
#include "training/loop/trainer.h"
#include "training/saving/checkpoint_commands.h"
#include "training/saving/run_folder.h"
#include "training/setup/rank_settings.h"
#include "training/setup/tokenizer_check.h"

namespace packtrain {
namespace {

std::optional<std::int64_t> run_trainer(Trainer& trainer) {
  try {
    return trainer.run();
  } catch (const c10::OutOfMemoryError& error) {
    throw OutOfMemory("something else than a step's batches", -1, 0, error.what());
  }
}

// A lost rank, or one that must end for another job, does not wait for readers of the metrics.
void tell_end(Trainer& trainer, const Error& error) {
  if (error.category() == ErrorCategory::kStopped) {
    trainer.end(RunState::kStopped, "", /*waits=*/false);
  } else {
    trainer.end(RunState::kFailed, error.what(), error.category() != ErrorCategory::kDevice);
  }
}

// Claims the folder first, so that no file of another job is changed.
std::unique_ptr<RunFolderLock> claim_folder(const Config& config, World& world) {
  const Watchdog limit(config.guard, "", world);  // files may hang, and other ranks wait
  check_same_settings(config, world);
  std::unique_ptr<RunFolderLock> claim;
  if (world.rank() == 0) {
    claim = std::make_unique<RunFolderLock>(config.run.output, this_process(world.host()));
  }
  wait_for_folder(config.run.output, world);
  if (world.rank() == 0) {
    check_tokenizers(config);
    check_report_to(config);
    CheckpointCommands::check_programs(config);
  }
  return claim;
}

// Rank 0 looks, because file caches of other hosts may be old.
bool has_checkpoint(const Config& config, World& world) {
  std::int64_t found = 0;
  if (world.rank() == 0) {
    found = find_latest_checkpoint(checkpoints_folder(config.run.output)).has_value() ? 1 : 0;
  }
  world.control().all_reduce(&found, 1, DataType::kInt64, ReduceOp::kMax, nullptr);
  return found == 1;
}

// A trainer that fails aborts its communicators when it is destroyed.
std::optional<std::int64_t> train(const Config& config, World& world,
                                  const std::set<std::int64_t>& left_out) {
  set_log_position(0, "start");
  ExitDeadline deadline;
  Trainer trainer(config, world, left_out);
  try {
    const std::optional<std::int64_t> rewound = run_trainer(trainer);
    if (!rewound) trainer.end(RunState::kDone, "", /*waits=*/true);
    return rewound;
  } catch (const Error& error) {
    tell_end(trainer, error);
    // Every rank throws the other errors, and a save in flight must be completed.
    if (error.category() == ErrorCategory::kDevice) {
      deadline.arm(fmt::format("rank {}: {}", world.rank(), error.what()), error.exit_code());
    }
    throw;
  }
}

}  // namespace

// A run that returns to a checkpoint resumes from it. It only keeps the steps that it leaves out.
void run_training(const Config& config, World& world) {
  const std::unique_ptr<RunFolderLock> claim = claim_folder(config, world);
  Config current = config;
  std::set<std::int64_t> left_out;
  for (;;) {
    const std::optional<std::int64_t> rewound = train(current, world, left_out);
    if (!rewound) return;
    left_out.insert(*rewound);
    // A named checkpoint stays named: its newest descendant is found, or itself.
    const bool has_named =
        config.checkpoint.resume != "auto" && config.checkpoint.resume != "never";
    const bool has_own = has_named || has_checkpoint(config, world);
    if (!has_named) current.checkpoint.resume = "auto";
    world.control().barrier();  // no rank saves before all have looked
    log_warning("step {} was refused: going back to {}, and on without its update", *rewound,
                has_own ? "the newest checkpoint" : "the start");
  }
}

EvaluationRecord run_evaluation(const Config& config, const EvaluationRequest& request,
                                World& world) {
  const auto loaded = load_evaluation(config, request, world);
  return loaded->sets->evaluate(*loaded->model, 0, loaded->stop_never());
}

}  // namespace packtrain
