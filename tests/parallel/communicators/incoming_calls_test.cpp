// Callers that come at the same time, some of which say nothing or nonsense.
#include "parallel/communicators/tcp/incoming_calls.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <cstring>

namespace packtrain::incoming_calls_test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr auto kLong = seconds(60);

class IncomingCallsTest : public ::testing::Test {
 protected:
  Socket dial_in() const {
    return std::move(dial("127.0.0.1", port_of(listening_), kLong).value());
  }

  // The text of the next call.
  static std::string next_text(IncomingCalls& calls) {
    const auto end = std::chrono::steady_clock::now() + kLong;
    while (std::chrono::steady_clock::now() < end) {
      const std::vector<IncomingCall> found = calls.wait(seconds(1));
      if (!found.empty()) return found.front().text;
    }
    return "no call";
  }

  Socket listening_ = listen_at("127.0.0.1");
};

std::string message_of(std::uint32_t length, const std::string& text) {
  std::string message(sizeof length, '\0');
  std::memcpy(message.data(), &length, sizeof length);
  return message + text;
}

void send_bytes(const Socket& socket, const std::string& bytes) {
  ASSERT_EQ(::send(socket.descriptor(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(bytes.size()));
}

TEST_F(IncomingCallsTest, HaveATextThatComesInParts) {
  IncomingCalls calls(listening_, kLong);
  const Socket caller = dial_in();
  const std::string message = message_of(5, "hello");
  for (const char byte : message.substr(0, message.size() - 1)) {
    send_bytes(caller, std::string(1, byte));
    EXPECT_TRUE(calls.wait(milliseconds(20)).empty());
  }
  send_bytes(caller, message.substr(message.size() - 1));
  EXPECT_EQ(next_text(calls), "hello");
}

TEST_F(IncomingCallsTest, ComePastCallersThatSendNothingOrAPart) {
  IncomingCalls calls(listening_, kLong);
  const Socket silent = dial_in();
  const Socket slow = dial_in();
  send_bytes(slow, message_of(100, "part"));
  const Socket caller = dial_in();
  ASSERT_TRUE(send_text(caller, "hello", kLong));
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(next_text(calls), "hello");
  EXPECT_LT(std::chrono::steady_clock::now() - begin, kLong / 2);
}

TEST_F(IncomingCallsTest, CloseACallerThatIsSilentForLongerThanTheLimit) {
  IncomingCalls calls(listening_, milliseconds(300));
  const Socket silent = dial_in();
  const auto begin = std::chrono::steady_clock::now();
  char byte = 0;
  while (::recv(silent.descriptor(), &byte, 1, 0) != 0) {  // 0: closed by the other end
    ASSERT_LT(std::chrono::steady_clock::now() - begin, kLong);
    EXPECT_TRUE(calls.wait(milliseconds(20)).empty());
  }
  EXPECT_GE(std::chrono::steady_clock::now() - begin, milliseconds(300));
}

TEST_F(IncomingCallsTest, CloseACallerThatSendsNoText) {
  IncomingCalls calls(listening_, kLong);
  const Socket browser = dial_in();
  send_bytes(browser, "GET / HTTP/1.1\r\n\r\n");
  const auto begin = std::chrono::steady_clock::now();
  char byte = 0;
  while (::recv(browser.descriptor(), &byte, 1, 0) < 0 && errno == EAGAIN) {
    ASSERT_LT(std::chrono::steady_clock::now() - begin, kLong / 2);
    EXPECT_TRUE(calls.wait(milliseconds(20)).empty());
  }
}

TEST_F(IncomingCallsTest, EndTheirWaitWhenTheListeningSocketIsShutDown) {
  IncomingCalls calls(listening_, kLong);
  ::shutdown(listening_.descriptor(), SHUT_RDWR);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_TRUE(calls.wait(kLong).empty());
  EXPECT_LT(std::chrono::steady_clock::now() - begin, kLong / 2);
}

}  // namespace
}  // namespace packtrain::incoming_calls_test
