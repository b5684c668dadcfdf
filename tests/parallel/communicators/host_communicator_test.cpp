// Collectives of many ranks, as threads of one process: with whom each exchanges messages.
#include "parallel/communicators/host_communicator.h"

#include <gtest/gtest.h>

#include <bit>
#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <queue>
#include <set>
#include <thread>
#include <utility>
#include <vector>

namespace packtrain {
namespace {

// Messages on their way, by sender and receiver.
class Mail {
 public:
  void send(int from, int to, const void* data, std::size_t bytes) {
    const auto* begin = static_cast<const std::byte*>(data);
    const std::lock_guard lock(mutex_);
    messages_[{from, to}].emplace(begin, begin + bytes);
    arrived_.notify_all();
  }
  std::vector<std::byte> take(int from, int to) {
    std::unique_lock lock(mutex_);
    auto& waiting = messages_[{from, to}];
    arrived_.wait(lock, [&] { return !waiting.empty(); });
    std::vector<std::byte> message = std::move(waiting.front());
    waiting.pop();
    return message;
  }

 private:
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::map<std::pair<int, int>, std::queue<std::vector<std::byte>>> messages_;
};

class MailRank final : public HostCommunicator {
 public:
  MailRank(int rank, int size, Mail& mail) : HostCommunicator(rank, size), mail_(mail) {}
  const std::set<int>& peers() const { return peers_; }

  void barrier() override {}
  std::unique_ptr<Communicator> split(int, int) override { return nullptr; }
  std::string path() const override { return "mail"; }
  void abort() override {}

 private:
  class Messages final : public MessageSet {
   public:
    explicit Messages(MailRank& rank) : rank_(rank) {}
    void send(const void* data, std::size_t bytes, int to) override {
      if (bytes == 0) return;
      rank_.peers_.insert(to);
      rank_.mail_.send(rank_.rank(), to, data, bytes);
    }
    void receive(void* data, std::size_t bytes, int from) override {
      if (bytes > 0) wanted_.emplace_back(data, from);
    }
    void wait() override {
      for (const auto& [data, from] : std::exchange(wanted_, {})) {
        rank_.peers_.insert(from);
        const std::vector<std::byte> message = rank_.mail_.take(from, rank_.rank());
        std::memcpy(data, message.data(), message.size());
      }
    }

   private:
    MailRank& rank_;
    std::vector<std::pair<void*, int>> wanted_;
  };

  std::unique_ptr<MessageSet> messages() override { return std::make_unique<Messages>(*this); }

  Mail& mail_;
  std::set<int> peers_;
};

double value(int rank, std::size_t i) {
  return 1.0 / (rank + 1) + static_cast<double>(i);
}

// An evaluation sums up as many numbers where its data have a thousand sources.
TEST(HostCommunicator, SumsOfManyRanksNeedNoConnectionToEach) {
  constexpr int kRanks = 80;
  constexpr std::size_t kCount = 2001;
  Mail mail;
  std::vector<std::vector<double>> sums(kRanks, std::vector<double>(kCount));
  std::vector<std::size_t> num_peers(kRanks);
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < kRanks; ++rank) {
      threads.emplace_back([&, rank] {
        MailRank communicator(rank, kRanks, mail);
        for (std::size_t i = 0; i < kCount; ++i) sums[rank][i] = value(rank, i);
        communicator.all_reduce(sums[rank].data(), kCount, DataType::kFloat64, ReduceOp::kSum,
                                nullptr);
        num_peers[rank] = communicator.peers().size();
      });
    }
  }
  for (int rank = 0; rank < kRanks; ++rank) {
    EXPECT_LE(num_peers[rank], std::bit_width(unsigned{kRanks})) << "rank " << rank;
    EXPECT_EQ(sums[rank], sums[0]) << "rank " << rank;
  }
  for (std::size_t i = 0; i < kCount; i += 100) {
    double in_order = value(0, i);
    for (int rank = 1; rank < kRanks; ++rank) in_order += value(rank, i);
    EXPECT_EQ(sums[0][i], in_order);
  }
}

}  // namespace
}  // namespace packtrain
