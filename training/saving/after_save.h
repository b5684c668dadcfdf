// checkpoint.after_save: a command on each committed checkpoint, such as a copy to object storage.
#pragma once

#include <cstdint>
#include <stop_token>
#include <string>
#include <vector>

#include "framework/config/config.h"
#include "training/saving/step_worker.h"

namespace packtrain {

class AfterSave {
 public:
  static constexpr const char* kKey = "checkpoint.after_save";

  // `config` must outlive the object.
  explicit AfterSave(const Config& config);

  // Runs the command on the checkpoint of this step after those of earlier calls. It is started
  // again twice when it fails, 2 s and 10 s later. The third failure is a warning.
  void add(std::int64_t step);
  StepWorker& worker() { return worker_; }

 private:
  void work(std::int64_t step, const std::stop_token& stops);

  const Config& config_;
  StepWorker worker_;
};

}  // namespace packtrain
