#include "parallel/communicators/host_communicator.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <numeric>
#include <ranges>

#include "parallel/communicators/collective_log.h"
#include "parallel/communicators/collective_tree.h"
#include "parallel/communicators/local/host_memory.h"
#include "parallel/communicators/reduction.h"

namespace packtrain {
namespace {

// Elements reduced at a time. Limits staging memory to size() - 1 times this.
constexpr std::size_t kMaxStagedElements = std::size_t{1} << 20U;
// Bytes of all ranks together up to which every rank gathers all data and reduces it.
constexpr std::size_t kMaxGatheredBytes = std::size_t{1} << 20U;

// More ranks than these do not all exchange messages with each other for data that rank 0 can hold
// and reduce.
constexpr int kManyRanks = 64;
constexpr std::size_t kMaxBytesAtRoot = std::size_t{256} << 20U;  // of all ranks together

// True when the order of the additions does not change the sum.
bool is_integer(DataType type) {
  return type == DataType::kUInt8 || type == DataType::kInt16 || type == DataType::kInt32 ||
         type == DataType::kInt64;
}

// `all`: `count` elements of each rank, one after another.
void reduce_blocks(const std::vector<std::byte>& all, std::byte* result, std::size_t count,
                   DataType type, ReduceOp op) {
  std::vector<const std::byte*> inputs;
  const std::size_t bytes = count * size_of(type);
  for (std::size_t begin = 0; begin < all.size(); begin += bytes) inputs.push_back(&all[begin]);
  reduce_in_order(inputs, result, count, type, op);
}

}  // namespace

CommunicatorMemory HostCommunicator::allocate(std::size_t bytes) {
  return allocate_host_memory(bytes);
}

void HostCommunicator::all_gather(const void* send, void* receive, std::size_t count, DataType type,
                                  void* /*stream*/) {
  const CollectiveScope scope("all_gather", count, type);
  gather_all(send, static_cast<std::byte*>(receive), count * size_of(type));
}

void HostCommunicator::gather_all(const void* send, std::byte* all, std::size_t bytes) {
  if (bytes == 0) return;
  std::byte* own = all + static_cast<std::size_t>(rank_) * bytes;
  if (own != send) std::memcpy(own, send, bytes);
  for (const GatherRound& round : all_gather_rounds(rank_, size_)) {
    const std::unique_ptr<MessageSet> requests = messages();
    for (const BlockRange& blocks : blocks_from(round.from, round.num_blocks, size_)) {
      requests->receive(all + blocks.first * bytes, blocks.num * bytes, round.from);
    }
    for (const BlockRange& blocks : blocks_from(rank_, round.num_blocks, size_)) {
      requests->send(all + blocks.first * bytes, blocks.num * bytes, round.to);
    }
    requests->wait();
  }
}

void HostCommunicator::gather(const void* send, void* receive, std::size_t count, DataType type,
                              int root) {
  const CollectiveScope scope("gather", count, type);
  gather_up_tree(send, receive, count * size_of(type), root);
}

void HostCommunicator::gather_up_tree(const void* send, void* receive, std::size_t bytes,
                                      int root) {
  if (bytes == 0) return;
  const TreeNode place = tree_position(rank_, size_, root);
  std::vector<std::byte> blocks(place.num_ranks * bytes);  // of the subtree
  std::memcpy(blocks.data(), send, bytes);
  const std::unique_ptr<MessageSet> requests = messages();
  for (const TreeChild& child : place.children) {
    requests->receive(&blocks[child.distance * bytes], child.num_ranks * bytes, child.rank);
  }
  requests->wait();
  if (place.parent >= 0) {
    requests->send(blocks.data(), blocks.size(), place.parent);
    requests->wait();
    return;
  }
  const auto from_root =
      static_cast<std::ptrdiff_t>(static_cast<std::size_t>(size_ - root) * bytes);
  std::rotate_copy(blocks.begin(), blocks.begin() + from_root % std::ssize(blocks), blocks.end(),
                   static_cast<std::byte*>(receive));
}

void HostCommunicator::reduce_scatter(void* send, void* receive, std::size_t count, DataType type,
                                      void* /*stream*/) {
  const CollectiveScope scope("reduce_scatter", count, type);
  std::vector<Range> ranges(static_cast<std::size_t>(size_));
  for (std::size_t r = 0; r < ranges.size(); ++r) ranges[r] = {r * count, (r + 1) * count};
  reduce_ranges(static_cast<const std::byte*>(send), ranges, static_cast<std::byte*>(receive), type,
                ReduceOp::kSum);
}

void HostCommunicator::all_to_all(const void* send, std::span<const std::size_t> send_counts,
                                  void* receive, std::span<const std::size_t> receive_counts,
                                  DataType type, void* /*stream*/) {
  const auto rank = static_cast<std::size_t>(rank_);
  const CollectiveScope scope("all_to_all", send_counts[rank], type);
  const std::size_t width = size_of(type);
  std::vector<std::size_t> sent(send_counts.size());  // first elements
  std::vector<std::size_t> received(receive_counts.size());
  std::exclusive_scan(send_counts.begin(), send_counts.end(), sent.begin(), std::size_t{0});
  std::exclusive_scan(receive_counts.begin(), receive_counts.end(), received.begin(),
                      std::size_t{0});
  const auto* from = static_cast<const std::byte*>(send);
  auto* to = static_cast<std::byte*>(receive);
  if (send_counts[rank] > 0) {
    std::memcpy(to + received[rank] * width, from + sent[rank] * width, send_counts[rank] * width);
  }
  const std::unique_ptr<MessageSet> requests = messages();
  for (int distance = 1; distance < size_; ++distance) {
    const auto other = static_cast<std::size_t>(peer(distance));
    requests->receive(to + received[other] * width, receive_counts[other] * width, peer(distance));
    requests->send(from + sent[other] * width, send_counts[other] * width, peer(distance));
  }
  requests->wait();
}

void HostCommunicator::all_reduce(void* buffer, std::size_t count, DataType type, ReduceOp op,
                                  void* /*stream*/) {
  const CollectiveScope scope("all_reduce", count, type);
  auto* data = static_cast<std::byte*>(buffer);
  if (count == 0) return;
  // Every rank gets the same bits: all reduce in the same order, or one rank reduces and sends the
  // result.
  const std::size_t bytes_of_all = count * size_of(type) * static_cast<std::size_t>(size_);
  if (bytes_of_all <= kMaxGatheredBytes) {
    reduce_gathered(data, count, type, op);
  } else if (is_integer(type)) {
    reduce_up_tree(data, count, type, op);
  } else if (size_ > kManyRanks && bytes_of_all <= kMaxBytesAtRoot) {
    reduce_at_root(data, count, type, op);
  } else {
    reduce_by_shares(data, count, type, op);
  }
}

void HostCommunicator::reduce_gathered(std::byte* data, std::size_t count, DataType type,
                                       ReduceOp op) {
  const std::size_t bytes = count * size_of(type);
  std::vector<std::byte> all(static_cast<std::size_t>(size_) * bytes);
  gather_all(data, all.data(), bytes);
  reduce_blocks(all, data, count, type, op);
}

void HostCommunicator::reduce_at_root(std::byte* data, std::size_t count, DataType type,
                                      ReduceOp op) {
  const std::size_t bytes = count * size_of(type);
  std::vector<std::byte> all(rank_ == 0 ? static_cast<std::size_t>(size_) * bytes : 0);
  gather_up_tree(data, all.data(), bytes, 0);
  if (rank_ == 0) reduce_blocks(all, data, count, type, op);
  send_down_tree(data, bytes, 0);
}

void HostCommunicator::reduce_up_tree(std::byte* data, std::size_t count, DataType type,
                                      ReduceOp op) {
  const TreeNode place = tree_position(rank_, size_, 0);
  const std::size_t width = size_of(type);
  std::vector<std::byte> theirs(std::min(count, kMaxStagedElements) * width);
  for (std::size_t begin = 0; begin < count; begin += kMaxStagedElements) {
    std::byte* part = data + begin * width;
    const std::size_t part_count = std::min(kMaxStagedElements, count - begin);
    const std::unique_ptr<MessageSet> requests = messages();
    for (const TreeChild& child : place.children) {
      requests->receive(theirs.data(), part_count * width, child.rank);
      requests->wait();
      const std::vector<const std::byte*> inputs = {part, theirs.data()};
      reduce_in_order(inputs, part, part_count, type, op);
    }
    if (place.parent >= 0) requests->send(part, part_count * width, place.parent);
    requests->wait();
  }
  send_down_tree(data, count * width, 0);
}

void HostCommunicator::reduce_by_shares(std::byte* data, std::size_t count, DataType type,
                                        ReduceOp op) {
  const auto num_ranks = static_cast<std::size_t>(size_);
  const std::size_t share = (count + num_ranks - 1) / num_ranks;
  std::vector<Range> ranges(num_ranks);
  for (std::size_t r = 0; r < num_ranks; ++r) {
    ranges[r] = {std::min(r * share, count), std::min((r + 1) * share, count)};
  }
  const std::size_t width = size_of(type);
  const Range own = ranges[static_cast<std::size_t>(rank_)];
  reduce_ranges(data, ranges, data + own.begin * width, type, op);

  const std::unique_ptr<MessageSet> requests = messages();
  for (int distance = 1; distance < size_; ++distance) {
    const int other = peer(distance);
    const Range range = ranges[static_cast<std::size_t>(other)];
    requests->receive(data + range.begin * width, (range.end - range.begin) * width, other);
    requests->send(data + own.begin * width, (own.end - own.begin) * width, other);
  }
  requests->wait();
}

void HostCommunicator::reduce_ranges(const std::byte* data, const std::vector<Range>& ranges,
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

// Sends each rank its part of our data, and stages the others' data for our part.
void HostCommunicator::exchange_part(const std::byte* data, const std::vector<Range>& ranges,
                                     std::size_t offset, std::size_t width) {
  const auto part_bytes = [&](const Range& range) {
    const std::size_t begin = std::min(range.begin + offset, range.end);
    return std::min(kMaxStagedElements, range.end - begin) * width;
  };
  const std::size_t own_bytes = part_bytes(ranges[static_cast<std::size_t>(rank_)]);
  staged_.resize(static_cast<std::size_t>(size_));
  const std::unique_ptr<MessageSet> requests = messages();
  for (int distance = 1; distance < size_; ++distance) {
    const int from = peer(size_ - distance);
    auto& staged = staged_[static_cast<std::size_t>(from)];
    if (staged.size() < own_bytes) staged.resize(own_bytes);
    requests->receive(staged.data(), own_bytes, from);
  }
  for (int distance = 1; distance < size_; ++distance) {
    const int to = peer(distance);
    const Range& range = ranges[static_cast<std::size_t>(to)];
    requests->send(data + (range.begin + offset) * width, part_bytes(range), to);
  }
  requests->wait();
}

void HostCommunicator::broadcast(void* buffer, std::size_t bytes, int root, void* /*stream*/) {
  const CollectiveScope scope("broadcast", bytes, DataType::kUInt8);
  send_down_tree(buffer, bytes, root);
}

void HostCommunicator::send_down_tree(void* data, std::size_t bytes, int root) {
  const TreeNode place = tree_position(rank_, size_, root);
  const std::unique_ptr<MessageSet> requests = messages();
  if (place.parent >= 0) {
    requests->receive(data, bytes, place.parent);
    requests->wait();
  }
  for (const TreeChild& child : std::views::reverse(place.children)) {  // deepest subtrees first
    requests->send(data, bytes, child.rank);
  }
  requests->wait();
}

}  // namespace packtrain
