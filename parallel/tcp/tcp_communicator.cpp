#include "parallel/tcp/tcp_communicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "parallel/collective_log.h"
#include "parallel/local/host_memory.h"
#include "parallel/reduction.h"
#include "parallel/tcp/exchange.h"

namespace packtrain {
namespace {

// Up to so many bytes of all ranks go in log(ranks) rounds between few neighbours; more go straight
// from each rank to each.
constexpr std::size_t kFewBytes = std::size_t{1} << 18U;
// Bytes of the others that are staged at a time while sums are made.
constexpr std::size_t kStagedBytes = std::size_t{1} << 24U;

class TcpCommunicator final : public Communicator {
 public:
  TcpCommunicator(Switchboard& switchboard, const std::string& channel, std::vector<int> members)
      : links_(switchboard, channel), members_(std::move(members)) {
    const auto own = std::ranges::find(members_, switchboard.rank());
    rank_ = static_cast<int>(own - members_.begin());
  }

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(members_.size()); }
  void all_gather(const void* send, void* receive, std::size_t count, DataType type,
                  void* /*stream*/) override {
    const CollectiveScope scope("all_gather", count, type);
    gather_all(static_cast<const std::byte*>(send), static_cast<std::byte*>(receive),
               count * size_of(type));
  }
  void gather(const void* send, void* receive, std::size_t count, DataType type, int root) override;
  void reduce_scatter(void* send, void* receive, std::size_t count, DataType type,
                      void* stream) override;
  void all_reduce(void* buffer, std::size_t count, DataType type, ReduceOp op,
                  void* stream) override;
  void broadcast(void* buffer, std::size_t bytes, int root, void* stream) override;
  void barrier() override;
  std::unique_ptr<Communicator> split(int color, int key) override;
  CommunicatorMemory allocate(std::size_t bytes) override { return allocate_host_memory(bytes); }
  std::string path() const override { return "tcp"; }
  void poll_error() override {}  // faults show in the calls themselves
  void abort() override { aborted_ = true; }

 private:
  std::size_t num_ranks() const { return members_.size(); }
  // The member that is so many ranks further, in a circle.
  std::size_t further(std::size_t distance) const {
    return (static_cast<std::size_t>(rank_) + distance) % num_ranks();
  }
  int world_rank(std::size_t member) const { return members_[member]; }

  void gather_all(const std::byte* send, std::byte* receive, std::size_t bytes);
  void gather_in_rounds(const std::byte* send, std::byte* receive, std::size_t bytes);
  // The sum, or so, of all ranks' `data`, of which rank r makes elements bounds[r] to bounds[r +
  // 1].
  void reduce_part(const std::byte* data, const std::vector<std::size_t>& bounds, std::byte* result,
                   DataType type, ReduceOp op);

  Links links_;
  std::vector<int> members_;
  int rank_ = 0;
  int num_splits_ = 0;
  std::atomic<bool> aborted_ = false;
  std::vector<std::byte> staged_;
};

void TcpCommunicator::gather_all(const std::byte* send, std::byte* receive, std::size_t bytes) {
  if (bytes * num_ranks() <= kFewBytes) return gather_in_rounds(send, receive, bytes);
  std::byte* own = receive + static_cast<std::size_t>(rank_) * bytes;
  if (own != send) std::memcpy(own, send, bytes);
  Exchange exchange(links_, aborted_);
  for (std::size_t distance = 1; distance < num_ranks(); ++distance) {
    const std::size_t from = further(num_ranks() - distance);
    exchange.send(own, bytes, world_rank(further(distance)));
    exchange.receive(receive + from * bytes, bytes, world_rank(from));
  }
  exchange.wait();
}

// Bruck's: each round doubles what a rank holds, beginning with its own part.
void TcpCommunicator::gather_in_rounds(const std::byte* send, std::byte* receive,
                                       std::size_t bytes) {
  std::vector<std::byte> held(bytes * num_ranks());  // [i]: the part of the rank i further
  if (bytes > 0) std::memcpy(held.data(), send, bytes);
  for (std::size_t distance = 1; distance < num_ranks(); distance *= 2) {
    const std::size_t parts = std::min(distance, num_ranks() - distance);
    Exchange exchange(links_, aborted_);
    exchange.send(held.data(), parts * bytes, world_rank(further(num_ranks() - distance)));
    exchange.receive(held.data() + distance * bytes, parts * bytes, world_rank(further(distance)));
    exchange.wait();
  }
  if (bytes == 0) return;
  for (std::size_t i = 0; i < num_ranks(); ++i) {
    std::memcpy(receive + further(i) * bytes, held.data() + i * bytes, bytes);
  }
}

void TcpCommunicator::gather(const void* send, void* receive, std::size_t count, DataType type,
                             int root) {
  const std::size_t bytes = count * size_of(type);
  if (bytes * num_ranks() <= kFewBytes)
    return Communicator::gather(send, receive, count, type, root);
  const CollectiveScope scope("gather", count, type);
  Exchange exchange(links_, aborted_);
  if (rank_ != root) {
    exchange.send(send, bytes, world_rank(static_cast<std::size_t>(root)));
    return exchange.wait();
  }
  auto* all = static_cast<std::byte*>(receive);
  const auto own = static_cast<std::size_t>(rank_);
  for (std::size_t r = 0; r < num_ranks(); ++r) {
    if (r != own) exchange.receive(all + r * bytes, bytes, world_rank(r));
  }
  if (all + own * bytes != send) std::memcpy(all + own * bytes, send, bytes);
  exchange.wait();
}

void TcpCommunicator::reduce_part(const std::byte* data, const std::vector<std::size_t>& bounds,
                                  std::byte* result, DataType type, ReduceOp op) {
  const std::size_t width = size_of(type);
  const auto own = static_cast<std::size_t>(rank_);
  std::size_t longest = 0;
  for (std::size_t r = 0; r < num_ranks(); ++r) {
    longest = std::max(longest, bounds[r + 1] - bounds[r]);
  }
  const std::size_t step = std::max<std::size_t>(kStagedBytes / width / num_ranks(), 1);
  staged_.resize(std::max(staged_.size(), std::min(step, longest) * width * num_ranks()));
  const auto elements = [&](std::size_t rank, std::size_t begin) {
    const std::size_t length = bounds[rank + 1] - bounds[rank];
    return std::min(step, length - std::min(begin, length));
  };
  for (std::size_t begin = 0; begin < longest; begin += step) {
    const std::size_t mine = elements(own, begin);
    std::vector<const std::byte*> inputs(num_ranks());
    inputs[own] = data + (bounds[own] + begin) * width;
    Exchange exchange(links_, aborted_);
    for (std::size_t distance = 1; distance < num_ranks(); ++distance) {
      const std::size_t from = further(num_ranks() - distance);
      const std::size_t to = further(distance);
      std::byte* place = staged_.data() + from * mine * width;
      inputs[from] = place;
      if (mine > 0) exchange.receive(place, mine * width, world_rank(from));
      const std::size_t theirs = elements(to, begin);
      if (theirs > 0) {
        exchange.send(data + (bounds[to] + begin) * width, theirs * width, world_rank(to));
      }
    }
    exchange.wait();
    if (mine > 0) reduce_in_order(inputs, result + begin * width, mine, type, op);
  }
}

void TcpCommunicator::reduce_scatter(void* send, void* receive, std::size_t count, DataType type,
                                     void* /*stream*/) {
  const CollectiveScope scope("reduce_scatter", count, type);
  std::vector<std::size_t> bounds(num_ranks() + 1);
  for (std::size_t r = 0; r < bounds.size(); ++r) bounds[r] = r * count;
  reduce_part(static_cast<const std::byte*>(send), bounds, static_cast<std::byte*>(receive), type,
              ReduceOp::kSum);
}

void TcpCommunicator::all_reduce(void* buffer, std::size_t count, DataType type, ReduceOp op,
                                 void* /*stream*/) {
  const CollectiveScope scope("all_reduce", count, type);
  if (count == 0 || num_ranks() == 1) return;
  const std::size_t width = size_of(type);
  auto* data = static_cast<std::byte*>(buffer);
  if (count * width * num_ranks() <= kFewBytes) {
    std::vector<std::byte> all(count * width * num_ranks());
    gather_in_rounds(data, all.data(), count * width);
    std::vector<const std::byte*> inputs;
    for (std::size_t r = 0; r < num_ranks(); ++r) inputs.push_back(all.data() + r * count * width);
    return reduce_in_order(inputs, data, count, type, op);
  }
  // One rank reduces each element and tells the others, so all hold the same bits.
  const std::size_t share = (count + num_ranks() - 1) / num_ranks();
  std::vector<std::size_t> bounds(num_ranks() + 1);
  for (std::size_t r = 0; r < bounds.size(); ++r) bounds[r] = std::min(r * share, count);
  const auto part = [&](std::size_t rank) { return data + bounds[rank] * width; };
  const auto bytes = [&](std::size_t rank) { return (bounds[rank + 1] - bounds[rank]) * width; };
  const auto own = static_cast<std::size_t>(rank_);
  reduce_part(data, bounds, part(own), type, op);
  Exchange exchange(links_, aborted_);
  for (std::size_t distance = 1; distance < num_ranks(); ++distance) {
    const std::size_t other = further(distance);
    exchange.send(part(own), bytes(own), world_rank(other));
    exchange.receive(part(other), bytes(other), world_rank(other));
  }
  exchange.wait();
}

// Along a binomial tree: who has it passes it on, in each round over half the distance.
void TcpCommunicator::broadcast(void* buffer, std::size_t bytes, int root, void* /*stream*/) {
  const CollectiveScope scope("broadcast", bytes, DataType::kUInt8);
  const std::size_t behind_root = further(num_ranks() - static_cast<std::size_t>(root));
  const auto from_root = [&](std::size_t place) {
    return world_rank((place + static_cast<std::size_t>(root)) % num_ranks());
  };
  std::size_t distance = 1;
  while (distance < num_ranks() && (behind_root & distance) == 0) distance *= 2;
  if (behind_root != 0) {
    Exchange exchange(links_, aborted_);
    exchange.receive(buffer, bytes, from_root(behind_root - distance));
    exchange.wait();
  }
  Exchange exchange(links_, aborted_);
  for (distance /= 2; distance > 0; distance /= 2) {
    if (behind_root + distance < num_ranks()) {
      exchange.send(buffer, bytes, from_root(behind_root + distance));
    }
  }
  exchange.wait();
}

void TcpCommunicator::barrier() {
  const CollectiveScope scope("barrier", 0, DataType::kUInt8);
  gather_in_rounds(nullptr, nullptr, 0);
}

std::unique_ptr<Communicator> TcpCommunicator::split(int color, int key) {
  struct Wish {
    int color;
    int key;
    int world_rank;
  };
  const Wish own{color, key, links_.switchboard().rank()};
  std::vector<Wish> wishes(num_ranks());
  gather_all(reinterpret_cast<const std::byte*>(&own), reinterpret_cast<std::byte*>(wishes.data()),
             sizeof own);
  std::erase_if(wishes, [color](const Wish& wish) { return wish.color != color; });
  std::ranges::stable_sort(wishes, {}, &Wish::key);
  std::vector<int> members;
  for (const Wish& wish : wishes) members.push_back(wish.world_rank);
  return make_tcp_communicator(links_.switchboard(),
                               fmt::format("{}/{}.{}", links_.channel(), num_splits_++, color),
                               members);
}

}  // namespace

std::unique_ptr<Communicator> make_tcp_communicator(Switchboard& switchboard,
                                                    const std::string& channel,
                                                    std::vector<int> members) {
  return std::make_unique<TcpCommunicator>(switchboard, channel, std::move(members));
}

}  // namespace packtrain
