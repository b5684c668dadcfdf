// Evaluation by all ranks together. Ranks share failures and requests between micro-batches, so
// that all of them continue, start again or end.
#pragma once

#include <cstddef>
#include <exception>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "framework/core/error.h"
#include "parallel/communicators/world.h"
#include "parallel/sharding/sharded_model.h"

namespace packtrain {

// An evaluation, or the writing of samples, failed. Thrown on every rank with the same text. The
// weights are unchanged.
class EvaluationError : public Error {
 public:
  using Error::Error;
};

// A rank was asked to stop. Thrown on every rank.
class EvaluationStopped : public std::exception {};

// Memory ran out on some rank. Thrown on every rank. Smaller micro-batches may fit.
class EvaluationOutOfMemory : public std::exception {
 public:
  explicit EvaluationOutOfMemory(std::string message) : message_(std::move(message)) {}
  const char* what() const noexcept override { return message_.c_str(); }

 private:
  std::string message_;  // names the rank
};

class CollectiveEvaluation {
 public:
  // `stop_requested`, or none, is called in each agree().
  CollectiveEvaluation(World& world, const std::function<bool()>& stop_requested)
      : world_(world), stop_requested_(stop_requested) {}

  // Runs this rank's part. Stores what it throws, for agree(). False when it threw.
  bool attempt(const std::function<void()>& work);
  // ShardedModel::evaluate() of the result of `make`, with the same number of micro-batches on
  // every rank. A rank that has failed still joins the others' collectives; its tensor is
  // undefined.
  at::Tensor evaluate(ShardedModel& model, std::size_t num_micro_batches,
                      const std::function<std::span<DeviceBatch>()>& make);
  // Collective. Throws one of the above if a rank failed since the last call.
  void agree();

 private:
  [[noreturn]] void throw_collective_failure();

  World& world_;
  const std::function<bool()>& stop_requested_;
  std::optional<Error> failure_;
  std::optional<std::string> out_of_memory_;
};

}  // namespace packtrain
