// Collectives for host memory, built of messages between pairs of ranks. Counts have any size and
// sums a fixed order. The backend transports the messages.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "parallel/communicators/communicator.h"
#include "parallel/communicators/message_set.h"

namespace packtrain {

class HostCommunicator : public Communicator {
 public:
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  void all_gather(const void* send, void* receive, std::size_t count, DataType type,
                  void* stream) override;
  void gather(const void* send, void* receive, std::size_t count, DataType type, int root) override;
  void reduce_scatter(void* send, void* receive, std::size_t count, DataType type,
                      void* stream) override;
  void all_to_all(const void* send, std::span<const std::size_t> send_counts, void* receive,
                  std::span<const std::size_t> receive_counts, DataType type,
                  void* stream) override;
  void all_reduce(void* buffer, std::size_t count, DataType type, ReduceOp op,
                  void* stream) override;
  void broadcast(void* buffer, std::size_t bytes, int root, void* stream) override;
  CommunicatorMemory allocate(std::size_t bytes) override;
  void poll_error() override {}  // faults are reported by the calls themselves

 protected:
  HostCommunicator(int rank, int size) : rank_(rank), size_(size) {}
  // Messages to and from ranks of this communicator.
  virtual std::unique_ptr<MessageSet> messages() = 0;
  // Gathers `bytes` at `send` of every rank into `all`, in the order of the ranks.
  void gather_all(const void* send, std::byte* all, std::size_t bytes);

 private:
  struct Range {
    std::size_t begin = 0;
    std::size_t end = 0;
  };

  int peer(int distance) const { return (rank_ + distance) % size_; }
  // For small data: every rank gathers all data and reduces it in the order of the ranks.
  void reduce_gathered(std::byte* data, std::size_t count, DataType type, ReduceOp op);
  // Reduces up a tree to rank 0, then broadcasts down. Each rank reduces its subtree.
  void reduce_up_tree(std::byte* data, std::size_t count, DataType type, ReduceOp op);
  // Rank 0 gathers all data up a tree, reduces it in the order of the ranks and broadcasts it.
  void reduce_at_root(std::byte* data, std::size_t count, DataType type, ReduceOp op);
  // Each element is reduced by one rank, in the order of the ranks, from all others' messages.
  void reduce_by_shares(std::byte* data, std::size_t count, DataType type, ReduceOp op);
  // Reduces every rank's `data` over `ranges[rank()]` into `result`; rank r gets ranges[r].
  void reduce_ranges(const std::byte* data, const std::vector<Range>& ranges, std::byte* result,
                     DataType type, ReduceOp op);
  void exchange_part(const std::byte* data, const std::vector<Range>& ranges, std::size_t offset,
                     std::size_t width);
  void gather_up_tree(const void* send, void* receive, std::size_t bytes, int root);
  void send_down_tree(void* data, std::size_t bytes, int root);

  int rank_;
  int size_;
  std::vector<std::vector<std::byte>> staged_;  // [rank] its part of the data that is reduced
};

}  // namespace packtrain
