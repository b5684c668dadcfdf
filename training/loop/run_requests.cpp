#include "training/loop/run_requests.h"

#include <chrono>
#include <filesystem>
#include <system_error>

namespace packtrain {
namespace {

constexpr const char* kSaveRequestName = "checkpoint-now";  // in the run folder
constexpr double kLookEveryS = 1;

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

RunRequests::RunRequests(const std::string& run_folder, int rank)
    : save_file_(run_folder + "/" + kSaveRequestName), rank_(rank) {
  signal_.emplace();
}

StepRequests RunRequests::poll() {
  StepRequests requests{.stop = stop_requested()};
  // A shared file system needs milliseconds for an answer, too long for every step.
  if (rank_ == 0 && now_s() - last_look_s_ > kLookEveryS) {
    std::error_code ignored;
    last_look_s_ = now_s();
    requests.save = std::filesystem::remove(save_file_, ignored);
  }
  return requests;
}

void RunRequests::agree(const StepRequests& requests, bool discarded) {
  save_agreed_ = save_agreed_ || requests.save;
  stop_agreed_ = stop_agreed_ || (requests.stop && !discarded);
}

}  // namespace packtrain
