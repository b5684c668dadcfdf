#include "training/faults/collective_faults.h"

#include <chrono>
#include <thread>
#include <utility>

#include "framework/core/error.h"
#include "parallel/communicators/forwarding_communicator.h"

namespace packtrain {
namespace {

[[noreturn]] void never_return() {
  while (true) std::this_thread::sleep_for(std::chrono::hours(24));
}

class FaultyCommunicator final : public ForwardingCommunicator {
 public:
  FaultyCommunicator(std::unique_ptr<Communicator> real, std::shared_ptr<CollectiveFaults> faults)
      : ForwardingCommunicator(std::move(real)), faults_(std::move(faults)) {}

  void all_gather(const void* send, void* receive, std::size_t count, DataType type,
                  void* stream) override {
    if (const auto made = faults_->begin_call(count))
      real().all_gather(send, receive, *made, type, stream);
  }
  void reduce_scatter(void* send, void* receive, std::size_t count, DataType type,
                      void* stream) override {
    if (const auto made = faults_->begin_call(count))
      real().reduce_scatter(send, receive, *made, type, stream);
  }
  void all_reduce(void* buffer, std::size_t count, DataType type, ReduceOp op,
                  void* stream) override {
    if (const auto made = faults_->begin_call(count))
      real().all_reduce(buffer, *made, type, op, stream);
  }
  std::unique_ptr<Communicator> split(int color, int key) override {
    return faults_->decorate(real().split(color, key));
  }
  void poll_error() override {
    if (faults_->is_link_lost()) {
      throw Error(ErrorCategory::kDevice, "a link was lost: injected by fault.kind");
    }
    real().poll_error();
  }
  void abort() override {
    if (faults_->abort_hangs()) never_return();
    real().abort();
  }

 private:
  std::shared_ptr<CollectiveFaults> faults_;
};

}  // namespace

std::unique_ptr<Communicator> CollectiveFaults::decorate(std::unique_ptr<Communicator> real) {
  return std::make_unique<FaultyCommunicator>(std::move(real), shared_from_this());
}

std::optional<std::size_t> CollectiveFaults::begin_call(std::size_t count) {
  switch (next_.exchange(CollectiveFault::kNone)) {
    case CollectiveFault::kSkip:
      return std::nullopt;
    case CollectiveFault::kOther:
      return count / 2;
    case CollectiveFault::kFail:
      abort_hangs_ = true;
      throw Error(ErrorCategory::kDevice, "a collective failed: injected by fault.kind");
    case CollectiveFault::kLose:
      link_lost_ = true;
      never_return();
    case CollectiveFault::kNone:
      break;
  }
  return count;
}

}  // namespace packtrain
