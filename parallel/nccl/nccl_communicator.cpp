#include "parallel/nccl/nccl_communicator.h"

#include <fmt/format.h>

#include <exception>
#include <utility>

#include "framework/device/cuda/check.h"
#include "framework/support/error.h"
#include "parallel/nccl/check.h"

namespace packtrain {
namespace {

ncclDataType_t nccl_type(DataType type) {
  switch (type) {
    case DataType::kUInt8:
      return ncclUint8;
    case DataType::kInt32:
      return ncclInt32;
    case DataType::kInt64:
      return ncclInt64;
    case DataType::kFloat16:
      return ncclFloat16;
    case DataType::kBFloat16:
      return ncclBfloat16;
    case DataType::kFloat32:
      return ncclFloat32;
    case DataType::kFloat64:
      return ncclFloat64;
    case DataType::kInt16:
      break;
  }
  throw Error(ErrorCategory::kInternal, "the nccl backend has no int16");
}

ncclRedOp_t nccl_op(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      return ncclSum;
    case ReduceOp::kMin:
      return ncclMin;
    case ReduceOp::kMax:
      return ncclMax;
  }
  throw Error(ErrorCategory::kInternal, "unknown reduction");
}

cudaStream_t cuda_stream(void* stream) {
  return static_cast<cudaStream_t>(stream);
}

ncclConfig_t blocking_config() {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 1;
  return config;
}

// A stream and a word of device memory, for barriers.
class BarrierResources {
 public:
  BarrierResources() {
    PACKTRAIN_CUDA_CHECK(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    PACKTRAIN_CUDA_CHECK(cudaMalloc(&word_, sizeof(std::int32_t)));
    PACKTRAIN_CUDA_CHECK(cudaMemset(word_, 0, sizeof(std::int32_t)));
  }
  ~BarrierResources() {
    cudaFree(word_);
    cudaStreamDestroy(stream_);
  }
  BarrierResources(const BarrierResources&) = delete;
  BarrierResources& operator=(const BarrierResources&) = delete;

  cudaStream_t stream() const { return stream_; }
  void* word() const { return word_; }

 private:
  cudaStream_t stream_ = nullptr;
  void* word_ = nullptr;
};

class NcclCommunicator final : public Communicator {
 public:
  explicit NcclCommunicator(ncclComm_t comm) : comm_(comm) {
    PACKTRAIN_NCCL_CHECK(comm_, ncclCommUserRank(comm_, &rank_));
    PACKTRAIN_NCCL_CHECK(comm_, ncclCommCount(comm_, &size_));
  }
  ~NcclCommunicator() override {
    if (comm_ == nullptr) return;
    // Destroying waits for the peers: not while an exception ends this rank alone.
    if (std::uncaught_exceptions() > 0) {
      ncclCommAbort(comm_);
    } else {
      ncclCommDestroy(comm_);
    }
  }
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  void all_gather(const void* send, void* receive, std::size_t count, DataType type,
                  void* stream) override;
  void reduce_scatter(void* send, void* receive, std::size_t count, DataType type,
                      void* stream) override;
  void all_reduce(void* buffer, std::size_t count, DataType type, ReduceOp op,
                  void* stream) override;
  void broadcast(void* buffer, std::size_t bytes, int root, void* stream) override;
  void barrier() override;
  std::unique_ptr<Communicator> split(int color, int key) override;
  CommunicatorMemory allocate(std::size_t bytes) override;
  void poll_error() override;
  void abort() override;

 private:
  ncclComm_t checked_comm() const;

  ncclComm_t comm_;  // null after abort()
  int rank_ = 0;
  int size_ = 1;
  BarrierResources barrier_;
};

ncclComm_t NcclCommunicator::checked_comm() const {
  if (comm_ != nullptr) return comm_;
  throw Error(ErrorCategory::kDevice, "a collective was called on an aborted NCCL communicator",
              "The error that came first tells why.");
}

void NcclCommunicator::all_gather(const void* send, void* receive, std::size_t count, DataType type,
                                  void* stream) {
  PACKTRAIN_NCCL_CHECK(comm_, ncclAllGather(send, receive, count, nccl_type(type), checked_comm(),
                                            cuda_stream(stream)));
}

void NcclCommunicator::reduce_scatter(void* send, void* receive, std::size_t count, DataType type,
                                      void* stream) {
  PACKTRAIN_NCCL_CHECK(comm_, ncclReduceScatter(send, receive, count, nccl_type(type), ncclSum,
                                                checked_comm(), cuda_stream(stream)));
}

void NcclCommunicator::all_reduce(void* buffer, std::size_t count, DataType type, ReduceOp op,
                                  void* stream) {
  PACKTRAIN_NCCL_CHECK(comm_, ncclAllReduce(buffer, buffer, count, nccl_type(type), nccl_op(op),
                                            checked_comm(), cuda_stream(stream)));
}

void NcclCommunicator::broadcast(void* buffer, std::size_t bytes, int root, void* stream) {
  PACKTRAIN_NCCL_CHECK(comm_, ncclBroadcast(buffer, buffer, bytes, ncclUint8, root, checked_comm(),
                                            cuda_stream(stream)));
}

void NcclCommunicator::barrier() {
  all_reduce(barrier_.word(), 1, DataType::kInt32, ReduceOp::kSum, barrier_.stream());
  PACKTRAIN_CUDA_CHECK(cudaStreamSynchronize(barrier_.stream()));
}

std::unique_ptr<Communicator> NcclCommunicator::split(int color, int key) {
  ncclComm_t part = nullptr;
  ncclConfig_t config = blocking_config();
  PACKTRAIN_NCCL_CHECK(comm_, ncclCommSplit(checked_comm(), color, key, &part, &config));
  return std::make_unique<NcclCommunicator>(part);
}

CommunicatorMemory NcclCommunicator::allocate(std::size_t bytes) {
  if (bytes == 0) return {};
  void* data = nullptr;
  PACKTRAIN_NCCL_CHECK(nullptr, ncclMemAlloc(&data, bytes));
  std::shared_ptr<void> owner(data, [](void* memory) { ncclMemFree(memory); });
  return {data, bytes, std::move(owner)};
}

void NcclCommunicator::poll_error() {
  ncclResult_t fault = ncclSuccess;
  PACKTRAIN_NCCL_CHECK(comm_, ncclCommGetAsyncError(checked_comm(), &fault));
  PACKTRAIN_NCCL_CHECK(comm_, fault);
}

void NcclCommunicator::abort() {
  const ncclComm_t comm = std::exchange(comm_, nullptr);
  if (comm != nullptr) ncclCommAbort(comm);
}

// An older library can lack calls, and 2.28 before 2.28.7 corrupts data in symmetric kernels.
void require_nccl_version() {
  int found = 0;
  PACKTRAIN_NCCL_CHECK(nullptr, ncclGetVersion(&found));
  if (found >= NCCL_VERSION_CODE) return;
  throw Error(ErrorCategory::kDevice,
              fmt::format("NCCL at run time is {}, built against {}", found, NCCL_VERSION_CODE),
              "Let LD_LIBRARY_PATH name the NCCL of the Python environment first.");
}

}  // namespace

std::unique_ptr<Communicator> make_nccl_communicator(Communicator& control) {
  require_nccl_version();
  ncclUniqueId id{};
  if (control.rank() == 0) PACKTRAIN_NCCL_CHECK(nullptr, ncclGetUniqueId(&id));
  control.broadcast(&id, sizeof id, 0, nullptr);
  ncclConfig_t config = blocking_config();
  ncclComm_t comm = nullptr;
  PACKTRAIN_NCCL_CHECK(nullptr,
                       ncclCommInitRankConfig(&comm, control.size(), id, control.rank(), &config));
  return std::make_unique<NcclCommunicator>(comm);
}

}  // namespace packtrain
