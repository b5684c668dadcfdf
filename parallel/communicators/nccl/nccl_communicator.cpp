#include "parallel/communicators/nccl/nccl_communicator.h"

#include <fmt/format.h>

#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include "framework/core/error.h"
#include "framework/device/cuda/check.h"
#include "parallel/communicators/collective_log.h"
#include "parallel/communicators/nccl/check.h"
#include "parallel/communicators/nccl/nccl_handle.h"
#include "parallel/communicators/nccl/path_agreement.h"
#include "parallel/communicators/nccl/rank_sum.h"
#include "parallel/communicators/nccl/words.h"

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
    case DataType::kFloat8E4M3:
    case DataType::kFloat8E5M2:
    case DataType::kInt16:
    case DataType::kBool:
      break;
  }
  throw Error(ErrorCategory::kInternal, "the nccl backend has no int16, bool and 8-bit floats");
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

// Copy engines are an option of the communicator. Its memory decides whether they are used.
ncclConfig_t config_of(const CommunicatorOptions& options) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 1;
  if (options.path == CollectivePath::kCopyEngine) config.CTAPolicy = NCCL_CTA_POLICY_ZERO;
  if (options.max_ctas > 0) config.maxCTAs = options.max_ctas;
  return config;
}

class NcclCommunicator final : public Communicator {
 public:
  NcclCommunicator(ncclComm_t comm, const CommunicatorOptions& options)
      : handle_(std::make_shared<NcclHandle>(comm)), options_(options) {
    PACKTRAIN_NCCL_CHECK(comm, ncclCommUserRank(comm, &rank_));
    PACKTRAIN_NCCL_CHECK(comm, ncclCommCount(comm, &size_));
    if (size_ == 1) choice_ = PathChoice{};  // a copy, or nothing
  }
  ~NcclCommunicator() override { handle_->close(); }
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
  void all_to_all(const void* send, std::span<const std::size_t> send_counts, void* receive,
                  std::span<const std::size_t> receive_counts, DataType type,
                  void* stream) override;
  void barrier() override;
  std::unique_ptr<Communicator> split(int color, int key) override;
  CommunicatorMemory allocate(std::size_t bytes) override;
  std::size_t allocate_scratch(std::size_t bytes) override;
  std::string path() const override;
  void poll_error() override;
  void abort() override { handle_->abort(); }

 private:
  void check_part(const void* whole, std::size_t bytes) const;
  // True when copy engines collect the parts of a reduce-scatter.
  bool copies_parts(const void* send, std::size_t part_bytes, DataType type) const;
  void add_copied_parts(const void* send, void* receive, std::size_t count, DataType type,
                        cudaStream_t stream);
  CollectivePath settled_path();                        // collective the first time
  void all_reduce_min(std::span<std::int64_t> values);  // of all ranks; at most Words::kNum

  std::shared_ptr<NcclHandle> handle_;
  CommunicatorOptions options_;
  int rank_ = 0;
  int size_ = 1;
  std::optional<PathChoice> choice_;  // selected at the first allocate()
  CommunicatorMemory scratch_;        // receives the parts of a reduce-scatter from copy engines
  Words words_;
};

// Symmetric kernels of NCCL 2.28.9 gave wrong bytes for parts of 8198 bytes.
void NcclCommunicator::check_part(const void* whole, std::size_t bytes) const {
  constexpr std::size_t kMultiple = 16;
  if (bytes % kMultiple == 0 || !handle_->in_window(whole)) return;
  throw Error(ErrorCategory::kInternal,
              fmt::format("a rank's part in memory of {} collectives has {} bytes, which is no "
                          "multiple of {}",
                          path(), bytes, kMultiple));
}

void NcclCommunicator::all_gather(const void* send, void* receive, std::size_t count, DataType type,
                                  void* stream) {
  const CollectiveScope scope("all_gather", count, type);
  const ncclComm_t comm = handle_->get();
  check_part(receive, count * size_of(type));
  PACKTRAIN_NCCL_CHECK(
      comm, ncclAllGather(send, receive, count, nccl_type(type), comm, cuda_stream(stream)));
}

void NcclCommunicator::reduce_scatter(void* send, void* receive, std::size_t count, DataType type,
                                      void* stream) {
  const CollectiveScope scope("reduce_scatter", count, type);
  const ncclComm_t comm = handle_->get();
  const std::size_t part_bytes = count * size_of(type);
  check_part(send, part_bytes);
  if (copies_parts(send, part_bytes, type)) {
    return add_copied_parts(send, receive, count, type, cuda_stream(stream));
  }
  PACKTRAIN_NCCL_CHECK(comm, ncclReduceScatter(send, receive, count, nccl_type(type), ncclSum, comm,
                                               cuda_stream(stream)));
}

bool NcclCommunicator::copies_parts(const void* send, std::size_t part_bytes, DataType type) const {
  return scratch_.size >= part_bytes * static_cast<std::size_t>(size_) &&
         (type == DataType::kBFloat16 || type == DataType::kFloat32) && handle_->in_window(send);
}

// A rank's next all-to-all follows its sum on the stream. Peers write only after all ranks have
// entered it, so one scratch buffer suffices.
void NcclCommunicator::add_copied_parts(const void* send, void* receive, std::size_t count,
                                        DataType type, cudaStream_t stream) {
  const ncclComm_t comm = handle_->get();
  PACKTRAIN_NCCL_CHECK(comm,
                       ncclAlltoAll(send, scratch_.data, count, nccl_type(type), comm, stream));
  launch_rank_sum({.parts = scratch_.data,
                   .sum = receive,
                   .dtype = type,
                   .num_ranks = size_,
                   .num_bytes = static_cast<std::int64_t>(count * size_of(type))},
                  stream);
}

// Empty messages are left out on both sides.
void NcclCommunicator::all_to_all(const void* send, std::span<const std::size_t> send_counts,
                                  void* receive, std::span<const std::size_t> receive_counts,
                                  DataType type, void* stream) {
  const CollectiveScope scope("all_to_all", send_counts[static_cast<std::size_t>(rank_)], type);
  const ncclComm_t comm = handle_->get();
  const auto* from = static_cast<const std::byte*>(send);
  auto* to = static_cast<std::byte*>(receive);
  PACKTRAIN_NCCL_CHECK(comm, ncclGroupStart());
  for (std::size_t r = 0; r < send_counts.size(); ++r) {
    const int peer = static_cast<int>(r);
    if (send_counts[r] > 0) {
      PACKTRAIN_NCCL_CHECK(
          comm, ncclSend(from, send_counts[r], nccl_type(type), peer, comm, cuda_stream(stream)));
    }
    if (receive_counts[r] > 0) {
      PACKTRAIN_NCCL_CHECK(
          comm, ncclRecv(to, receive_counts[r], nccl_type(type), peer, comm, cuda_stream(stream)));
    }
    from += send_counts[r] * size_of(type);
    to += receive_counts[r] * size_of(type);
  }
  PACKTRAIN_NCCL_CHECK(comm, ncclGroupEnd());
}

void NcclCommunicator::all_reduce(void* buffer, std::size_t count, DataType type, ReduceOp op,
                                  void* stream) {
  const CollectiveScope scope("all_reduce", count, type);
  const ncclComm_t comm = handle_->get();
  PACKTRAIN_NCCL_CHECK(comm, ncclAllReduce(buffer, buffer, count, nccl_type(type), nccl_op(op),
                                           comm, cuda_stream(stream)));
}

void NcclCommunicator::broadcast(void* buffer, std::size_t bytes, int root, void* stream) {
  const CollectiveScope scope("broadcast", bytes, DataType::kUInt8);
  const ncclComm_t comm = handle_->get();
  PACKTRAIN_NCCL_CHECK(
      comm, ncclBroadcast(buffer, buffer, bytes, ncclUint8, root, comm, cuda_stream(stream)));
}

void NcclCommunicator::barrier() {
  all_reduce(words_.data(), 1, DataType::kInt64, ReduceOp::kSum, words_.stream());
  PACKTRAIN_CUDA_CHECK(cudaStreamSynchronize(words_.stream()));
}

void NcclCommunicator::all_reduce_min(std::span<std::int64_t> values) {
  const cudaStream_t stream = words_.stream();
  PACKTRAIN_CUDA_CHECK(cudaMemcpyAsync(words_.data(), values.data(), values.size_bytes(),
                                       cudaMemcpyHostToDevice, stream));
  all_reduce(words_.data(), values.size(), DataType::kInt64, ReduceOp::kMin, stream);
  PACKTRAIN_CUDA_CHECK(cudaMemcpyAsync(values.data(), words_.data(), values.size_bytes(),
                                       cudaMemcpyDeviceToHost, stream));
  PACKTRAIN_CUDA_CHECK(cudaStreamSynchronize(stream));
}

std::unique_ptr<Communicator> NcclCommunicator::split(int color, int key) {
  const ncclComm_t comm = handle_->get();
  ncclComm_t part = nullptr;
  ncclConfig_t config = config_of(options_);
  PACKTRAIN_NCCL_CHECK(comm, ncclCommSplit(comm, color, key, &part, &config));
  return std::make_unique<NcclCommunicator>(part, options_);
}

CollectivePath NcclCommunicator::settled_path() {
  if (!choice_) {
    choice_ = agree_on_path(
        options_, [this](std::span<std::int64_t> values) { all_reduce_min(values); },
        [this] { return can_register_windows(handle_->get()); });
  }
  return choice_->path;
}

CommunicatorMemory NcclCommunicator::allocate(std::size_t bytes) {
  if (bytes == 0) return {};
  void* data = handle_->allocate(bytes, settled_path() != CollectivePath::kRing);
  std::shared_ptr<void> owner(data, [handle = handle_](void* memory) { handle->release(memory); });
  return {data, bytes, std::move(owner)};
}

std::size_t NcclCommunicator::allocate_scratch(std::size_t bytes) {
  if (bytes == 0 || settled_path() != CollectivePath::kCopyEngine) return 0;
  scratch_ = allocate(bytes);
  return scratch_.size;
}

std::string NcclCommunicator::path() const {
  const PathChoice choice = choice_.value_or(PathChoice{options_.path, ""});
  if (choice.missing.empty()) return path_name(choice.path);
  return fmt::format("{} ({} needs {})", path_name(choice.path), path_name(options_.path),
                     choice.missing);
}

void NcclCommunicator::poll_error() {
  const ncclComm_t comm = handle_->get();
  ncclResult_t fault = ncclSuccess;
  PACKTRAIN_NCCL_CHECK(comm, ncclCommGetAsyncError(comm, &fault));
  if (fault != ncclInProgress) PACKTRAIN_NCCL_CHECK(comm, fault);
}

}  // namespace

std::unique_ptr<Communicator> make_nccl_communicator(Communicator& control,
                                                     const CommunicatorOptions& options) {
  int found = 0;
  PACKTRAIN_NCCL_CHECK(nullptr, ncclGetVersion(&found));
  require_nccl_version(found, NCCL_VERSION_CODE);
  ncclUniqueId id{};
  if (control.rank() == 0) PACKTRAIN_NCCL_CHECK(nullptr, ncclGetUniqueId(&id));
  control.broadcast(&id, sizeof id, 0, nullptr);
  ncclConfig_t config = config_of(options);
  ncclComm_t comm = nullptr;
  PACKTRAIN_NCCL_CHECK(nullptr,
                       ncclCommInitRankConfig(&comm, control.size(), id, control.rank(), &config));
  return std::make_unique<NcclCommunicator>(comm, options);
}

}  // namespace packtrain
