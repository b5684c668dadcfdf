#include "parallel/communicators/tcp/tcp_communicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "parallel/communicators/collective_log.h"
#include "parallel/communicators/host_communicator.h"
#include "parallel/communicators/tcp/exchange.h"

namespace packtrain {
namespace {

int place_of(int world_rank, const std::vector<int>& members) {
  return static_cast<int>(std::ranges::find(members, world_rank) - members.begin());
}

class TcpCommunicator final : public HostCommunicator {
 public:
  TcpCommunicator(ConnectionManager& connection_manager, const std::string& channel,
                  std::vector<int> members)
      : HostCommunicator(place_of(connection_manager.rank(), members),
                         static_cast<int>(members.size())),
        links_(connection_manager, channel),
        members_(std::move(members)) {}

  void barrier() override;
  std::unique_ptr<Communicator> split(int color, int key) override;
  std::string path() const override { return "tcp"; }
  void abort() override { aborted_ = true; }

 private:
  std::unique_ptr<MessageSet> messages() override {
    return std::make_unique<Exchange>(links_, members_, aborted_);
  }

  Links links_;
  std::vector<int> members_;  // ranks of the world
  int num_splits_ = 0;
  std::atomic<bool> aborted_ = false;
};

void TcpCommunicator::barrier() {
  const CollectiveScope scope("barrier", 0, DataType::kUInt8);
  // A rank has all bytes only after all ranks have entered.
  std::vector<std::byte> all(members_.size());
  const std::byte own{};
  gather_all(&own, all.data(), 1);
}

std::unique_ptr<Communicator> TcpCommunicator::split(int color, int key) {
  struct Wish {
    int color;
    int key;
    int world_rank;
  };
  const Wish own{color, key, links_.connection_manager().rank()};
  std::vector<Wish> wishes(members_.size());
  gather_all(&own, reinterpret_cast<std::byte*>(wishes.data()), sizeof own);
  std::erase_if(wishes, [color](const Wish& wish) { return wish.color != color; });
  std::ranges::stable_sort(wishes, {}, &Wish::key);
  std::vector<int> members;
  for (const Wish& wish : wishes) members.push_back(wish.world_rank);
  return make_tcp_communicator(links_.connection_manager(),
                               fmt::format("{}/{}.{}", links_.channel(), num_splits_++, color),
                               members);
}

}  // namespace

std::unique_ptr<Communicator> make_tcp_communicator(ConnectionManager& connection_manager,
                                                    const std::string& channel,
                                                    std::vector<int> members) {
  return std::make_unique<TcpCommunicator>(connection_manager, channel, std::move(members));
}

}  // namespace packtrain
