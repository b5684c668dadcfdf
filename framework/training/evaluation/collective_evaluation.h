// Ranks that evaluate together: what one of them meets, all hear of between micro-batches, so that
// all go on, begin anew or end alike.
#pragma once

#include <cstddef>
#include <exception>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "framework/support/error.h"
#include "parallel/sharding/sharded_model.h"
#include "parallel/world.h"

namespace packtrain {

// An evaluation, or the writing of samples, that failed: thrown on every rank, the same. The
// weights are what they were.
class EvaluationError : public Error {
 public:
  using Error::Error;
};

// A rank was asked to stop: thrown on every rank.
class EvaluationStopped : public std::exception {};

// Memory ran out on some rank: thrown on every rank. Smaller micro-batches may do.
class EvaluationOutOfMemory : public std::exception {
 public:
  explicit EvaluationOutOfMemory(std::string message) : message_(std::move(message)) {}
  const char* what() const noexcept override { return message_.c_str(); }

 private:
  std::string message_;  // names the rank
};

class CollectiveEvaluation {
 public:
  // `stop_requested`, or none: asked at each agree().
  CollectiveEvaluation(World& world, const std::function<bool()>& stop_requested)
      : world_(world), stop_requested_(stop_requested) {}

  // Does this rank's part; what it throws is for agree() to tell. False where it threw.
  bool attempt(const std::function<void()>& work);
  // ShardedModel::evaluate() of what `make` returns, of as many micro-batches on every rank. Where
  // this rank cannot, it joins the others'; the tensor is undefined then.
  at::Tensor evaluate(ShardedModel& model, std::size_t num_micro_batches,
                      const std::function<std::span<const DeviceBatch>()>& make);
  // Collective. Throws one of the above where a rank has met it since the last call.
  void agree();

 private:
  [[noreturn]] void throw_collective_failure();

  World& world_;
  const std::function<bool()>& stop_requested_;
  std::optional<Error> failure_;
  std::optional<std::string> out_of_memory_;
};

}  // namespace packtrain
