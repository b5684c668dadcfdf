// Two processes of a job that connect, as two objects of one process.
#include "parallel/communicators/tcp/connection_manager.h"

#include <gtest/gtest.h>

#include <future>

namespace packtrain::connection_manager_test {
namespace {

using std::chrono::seconds;

constexpr auto kPatience = seconds(60);

JobLocation place_of(int rank, std::uint16_t port) {
  return {rank, 2, "127.0.0.1", port, false, "test"};
}

TEST(ConnectionManager, ConnectsPastACallerThatSendsNothing) {
  const std::uint16_t port = port_of(listen_at("127.0.0.1"));  // free again
  ConnectionManager first(place_of(0, port), "host");
  ConnectionManager second(place_of(1, port), "host");
  const std::optional<Socket> silent = dial(second.own().address, second.own().port, kPatience);
  ASSERT_TRUE(silent);
  const std::atomic<bool> never = false;
  const auto begin = std::chrono::steady_clock::now();
  auto other_end = std::async([&] { return second.connect("test", 0, never, kPatience); });
  EXPECT_TRUE(first.connect("test", 1, never, kPatience));
  EXPECT_TRUE(other_end.get());
  EXPECT_LT(std::chrono::steady_clock::now() - begin, seconds(15));
}

}  // namespace
}  // namespace packtrain::connection_manager_test
