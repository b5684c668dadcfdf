#include "parallel/mpi/mpi_communicator.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <vector>

#include "parallel/collective_log.h"
#include "parallel/local/host_memory.h"
#include "parallel/mpi/check.h"
#include "parallel/mpi/request_set.h"
#include "parallel/reduction.h"

namespace packtrain {
namespace {

// Elements reduced at a time: bounds the staging memory to this times size() - 1.
constexpr std::size_t kMaxStagedElements = std::size_t{1} << 20U;

struct Range {
  std::size_t begin = 0;
  std::size_t end = 0;
};

class MpiCommunicator final : public Communicator {
 public:
  explicit MpiCommunicator(MPI_Comm comm) : comm_(comm) {
    PACKTRAIN_MPI_CHECK(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN));
    PACKTRAIN_MPI_CHECK(MPI_Comm_rank(comm_, &rank_));
    PACKTRAIN_MPI_CHECK(MPI_Comm_size(comm_, &size_));
  }
  ~MpiCommunicator() override {
    // Freeing is collective: not while an exception ends this rank alone.
    if (!aborted_ && std::uncaught_exceptions() == 0) MPI_Comm_free(&comm_);
  }
  MpiCommunicator(const MpiCommunicator&) = delete;
  MpiCommunicator& operator=(const MpiCommunicator&) = delete;

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
  CommunicatorMemory allocate(std::size_t bytes) override { return allocate_host_memory(bytes); }
  std::string path() const override { return "mpi"; }
  void poll_error() override {}  // faults show in the calls themselves
  // Frees this process's own threads; MPI has no way to free other ranks but ending the job.
  void abort() override { aborted_ = true; }

 private:
  int peer(int distance) const { return (rank_ + distance) % size_; }
  // Reduces every rank's `data` over `ranges[rank()]` into `result`; ranges[r] is what rank r gets.
  void reduce_ranges(const std::byte* data, const std::vector<Range>& ranges, std::byte* result,
                     DataType type, ReduceOp op);
  void exchange_part(const std::byte* data, const std::vector<Range>& ranges, std::size_t offset,
                     std::size_t width);

  MPI_Comm comm_;
  int rank_ = 0;
  int size_ = 1;
  std::atomic<bool> aborted_ = false;
  std::vector<std::vector<std::byte>> staged_;  // [rank]: its part of what is being reduced
};

void MpiCommunicator::all_gather(const void* send, void* receive, std::size_t count, DataType type,
                                 void* /*stream*/) {
  const CollectiveScope scope("all_gather", count, type);
  const std::size_t bytes = count * size_of(type);
  auto* all = static_cast<std::byte*>(receive);
  RequestSet requests(comm_, aborted_);
  for (int distance = 1; distance < size_; ++distance) {
    const int from = peer(size_ - distance);
    requests.receive(all + static_cast<std::size_t>(from) * bytes, bytes, from);
  }
  for (int distance = 1; distance < size_; ++distance) {
    requests.send(send, bytes, peer(distance));
  }
  std::byte* own = all + static_cast<std::size_t>(rank_) * bytes;
  if (bytes > 0 && own != send) std::memcpy(own, send, bytes);
  requests.wait();
}

void MpiCommunicator::reduce_scatter(void* send, void* receive, std::size_t count, DataType type,
                                     void* /*stream*/) {
  const CollectiveScope scope("reduce_scatter", count, type);
  std::vector<Range> ranges(static_cast<std::size_t>(size_));
  for (std::size_t r = 0; r < ranges.size(); ++r) ranges[r] = {r * count, (r + 1) * count};
  reduce_ranges(static_cast<const std::byte*>(send), ranges, static_cast<std::byte*>(receive), type,
                ReduceOp::kSum);
}

void MpiCommunicator::all_reduce(void* buffer, std::size_t count, DataType type, ReduceOp op,
                                 void* /*stream*/) {
  const CollectiveScope scope("all_reduce", count, type);
  // One rank reduces each element and tells the others, so all hold the same bits.
  const auto num_ranks = static_cast<std::size_t>(size_);
  const std::size_t share = (count + num_ranks - 1) / num_ranks;
  std::vector<Range> ranges(num_ranks);
  for (std::size_t r = 0; r < num_ranks; ++r) {
    ranges[r] = {std::min(r * share, count), std::min((r + 1) * share, count)};
  }
  auto* data = static_cast<std::byte*>(buffer);
  const std::size_t width = size_of(type);
  const Range own = ranges[static_cast<std::size_t>(rank_)];
  reduce_ranges(data, ranges, data + own.begin * width, type, op);

  RequestSet requests(comm_, aborted_);
  for (int distance = 1; distance < size_; ++distance) {
    const int other = peer(distance);
    const Range range = ranges[static_cast<std::size_t>(other)];
    requests.receive(data + range.begin * width, (range.end - range.begin) * width, other);
    requests.send(data + own.begin * width, (own.end - own.begin) * width, other);
  }
  requests.wait();
}

void MpiCommunicator::reduce_ranges(const std::byte* data, const std::vector<Range>& ranges,
                                    std::byte* result, DataType type, ReduceOp op) {
  const std::size_t width = size_of(type);
  const Range own = ranges[static_cast<std::size_t>(rank_)];
  std::size_t longest = 0;
  for (const Range& range : ranges) longest = std::max(longest, range.end - range.begin);

  for (std::size_t offset = 0; offset < longest; offset += kMaxStagedElements) {
    exchange_part(data, ranges, offset, width);
    if (own.begin + offset >= own.end) continue;
    std::vector<const std::byte*> inputs;
    for (const auto& staged : staged_) inputs.push_back(staged.data());
    inputs[static_cast<std::size_t>(rank_)] = data + (own.begin + offset) * width;
    reduce_in_order(inputs, result + offset * width,
                    std::min(kMaxStagedElements, own.end - own.begin - offset), type, op);
  }
}

// Sends each rank its part of our data and stages the others' data for our part.
void MpiCommunicator::exchange_part(const std::byte* data, const std::vector<Range>& ranges,
                                    std::size_t offset, std::size_t width) {
  const auto part_bytes = [&](const Range& range) {
    const std::size_t begin = std::min(range.begin + offset, range.end);
    return std::min(kMaxStagedElements, range.end - begin) * width;
  };
  const std::size_t own_bytes = part_bytes(ranges[static_cast<std::size_t>(rank_)]);
  staged_.resize(static_cast<std::size_t>(size_));
  RequestSet requests(comm_, aborted_);
  for (int distance = 1; distance < size_; ++distance) {
    const int from = peer(size_ - distance);
    auto& staged = staged_[static_cast<std::size_t>(from)];
    if (staged.size() < own_bytes) staged.resize(own_bytes);
    requests.receive(staged.data(), own_bytes, from);
  }
  for (int distance = 1; distance < size_; ++distance) {
    const int to = peer(distance);
    const Range& range = ranges[static_cast<std::size_t>(to)];
    requests.send(data + (range.begin + offset) * width, part_bytes(range), to);
  }
  requests.wait();
}

void MpiCommunicator::broadcast(void* buffer, std::size_t bytes, int root, void* /*stream*/) {
  const CollectiveScope scope("broadcast", bytes, DataType::kUInt8);
  RequestSet requests(comm_, aborted_);
  if (rank_ == root) {
    for (int distance = 1; distance < size_; ++distance) {
      requests.send(buffer, bytes, peer(distance));
    }
  } else {
    requests.receive(buffer, bytes, root);
  }
  requests.wait();
}

void MpiCommunicator::barrier() {
  const CollectiveScope scope("barrier", 0, DataType::kUInt8);
  MPI_Request request = MPI_REQUEST_NULL;
  PACKTRAIN_MPI_CHECK(MPI_Ibarrier(comm_, &request));
  RequestSet requests(comm_, aborted_);
  requests.add(request);
  requests.wait();
}

std::unique_ptr<Communicator> MpiCommunicator::split(int color, int key) {
  MPI_Comm part = MPI_COMM_NULL;
  PACKTRAIN_MPI_CHECK(MPI_Comm_split(comm_, color, key, &part));
  return make_mpi_communicator(part);
}

}  // namespace

std::unique_ptr<Communicator> make_mpi_communicator(MPI_Comm comm) {
  return std::make_unique<MpiCommunicator>(comm);
}

}  // namespace packtrain
