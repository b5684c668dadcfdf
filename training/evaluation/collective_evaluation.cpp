#include "training/evaluation/collective_evaluation.h"

#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <utility>

#include "parallel/communicators/collectives.h"

namespace packtrain {
namespace {

enum Report : std::size_t { kStop, kFailed, kOutOfMemory, kNumReports };

}  // namespace

bool CollectiveEvaluation::attempt(const std::function<void()>& work) {
  if (failure_ || out_of_memory_) return false;
  try {
    work();
    return true;
  } catch (const c10::OutOfMemoryError& error) {
    out_of_memory_ = OutOfMemory("an evaluation", -1, 0, error.what()).message();
  } catch (const Error& error) {
    // Other ranks do not see a failed device or communicator, and it cannot be used any more.
    if (error.category() == ErrorCategory::kDevice) throw;
    failure_ = error;
  }
  return false;
}

at::Tensor CollectiveEvaluation::evaluate(ShardedModel& model, std::size_t num_micro_batches,
                                          const std::function<std::span<DeviceBatch>()>& make) {
  std::span<DeviceBatch> batches;
  if (!attempt([&] { batches = make(); })) {
    model.join_evaluation(num_micro_batches);
    return {};
  }
  PassResult evaluated = model.try_evaluate(batches);
  if (evaluated.out_of_memory) out_of_memory_ = evaluated.out_of_memory->message();
  return std::move(evaluated.loss);
}

void CollectiveEvaluation::agree() {
  std::array<std::int64_t, kNumReports> met{};
  met[kStop] = stop_requested_ && stop_requested_() ? 1 : 0;
  met[kFailed] = failure_ ? 1 : 0;
  met[kOutOfMemory] = out_of_memory_ ? 1 : 0;
  world_.control().all_reduce(met.data(), met.size(), DataType::kInt64, ReduceOp::kMax, nullptr);
  if (met[kStop] != 0) throw EvaluationStopped();
  if (met[kFailed] != 0) throw_collective_failure();
  if (met[kOutOfMemory] == 0) return;
  const auto messages = all_gather_texts(out_of_memory_.value_or(""), world_.control());
  for (std::size_t rank = 0; rank < messages.size(); ++rank) {
    if (messages[rank].empty()) continue;
    throw EvaluationOutOfMemory(fmt::format("rank {}: {}", rank, messages[rank]));
  }
}

// Throws the failure of the first rank that has one.
void CollectiveEvaluation::throw_collective_failure() {
  const auto code = failure_ ? std::to_string(failure_->exit_code()) : "";
  const auto codes = all_gather_texts(code, world_.control());
  const auto messages = all_gather_texts(failure_ ? failure_->message() : "", world_.control());
  const auto advice = all_gather_texts(failure_ ? failure_->advice() : "", world_.control());
  std::size_t rank = 0;
  while (codes[rank].empty()) ++rank;
  const std::string whose = codes.size() > 1 ? fmt::format("rank {}: ", rank) : "";
  throw EvaluationError(static_cast<ErrorCategory>(std::stoi(codes[rank])), whose + messages[rank],
                        advice[rank]);
}

}  // namespace packtrain
