#include "training/setup/training_store.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "framework/core/error.h"
#include "tests/parallel/communicators/thread_ranks.h"

namespace packtrain {
namespace {

// A rank's view of a store, which says when it is read.
class ReadStore final : public TokenStore {
 public:
  explicit ReadStore(std::function<std::string()> read) : read_(std::move(read)) {}

  const StoreInfo& info() const override { return info_; }
  const std::string& folder() const override { return folder_; }
  ExampleCounts lengths() const override { return none_; }
  ExampleCounts num_loss_tokens() const override { return none_; }
  std::span<const std::int32_t> input_ids(std::int64_t) const override { return {}; }
  std::span<const std::uint8_t> loss_mask(std::int64_t) const override { return {}; }
  std::int16_t source(std::int64_t) const override { return 0; }
  std::string fingerprint() const override { return kept_.empty() ? read_() : kept_; }
  void keep_fingerprint(const std::string& found) const override { kept_ = found; }

 private:
  std::function<std::string()> read_;
  StoreInfo info_;
  std::string folder_ = "store";
  std::vector<std::int32_t> none_;
  mutable std::string kept_;
};

// Six ranks, three of each of two hosts.
constexpr int kRanksPerHost = 3;
constexpr int kNumRanks = 2 * kRanksPerHost;

std::string share(const TokenStore& store, Communicator& control) {
  const std::string host = control.rank() < kRanksPerHost ? "one" : "two";
  return share_fingerprint(store, control.rank() % kRanksPerHost, host, control);
}

TEST(SharedFingerprint, IsReadOnceAHost) {
  std::atomic<int> num_reads = 0;
  test::run_ranks(kNumRanks, [&](Communicator& control) {
    const ReadStore store([&] {
      ++num_reads;
      return std::string("as read");
    });
    EXPECT_EQ(share(store, control), "as read");
    EXPECT_EQ(store.fingerprint(), "as read");  // for a checkpoint, later
  });
  EXPECT_EQ(num_reads, 2);
}

// The message of each rank's Error, or nothing.
std::vector<std::string> messages_of(const std::function<std::string(int rank)>& read) {
  std::vector<std::string> messages(kNumRanks);
  test::run_ranks(kNumRanks, [&](Communicator& control) {
    const ReadStore store([&] { return read(control.rank()); });
    try {
      share(store, control);
    } catch (const Error& error) {
      messages[static_cast<std::size_t>(control.rank())] = error.message();
    }
  });
  return messages;
}

TEST(SharedFingerprint, AnotherStoreOnAnotherHostIsRefusedByAllRanks) {
  const auto messages = messages_of([](int rank) { return rank < kRanksPerHost ? "a" : "b"; });
  EXPECT_EQ(messages, std::vector<std::string>(kNumRanks,
                                               "store on host two has fingerprint b, on host one "
                                               "a: these are different examples"));
}

TEST(SharedFingerprint, AFileThatOneHostCannotReadEndsAllRanks) {
  const auto messages = messages_of([](int rank) -> std::string {
    if (rank >= kRanksPerHost) throw Error(ErrorCategory::kData, "a damaged file");
    return "a";
  });
  EXPECT_EQ(messages, std::vector<std::string>(kNumRanks, "a damaged file"));
}

}  // namespace
}  // namespace packtrain
