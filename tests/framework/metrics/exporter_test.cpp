#include "framework/metrics/exporter.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "framework/core/error.h"
#include "framework/metrics/listen_socket.h"
#include "tests/framework/metrics/http_client.h"

namespace packtrain {
namespace {

using Clock = std::chrono::steady_clock;

const std::string kLoopback = own_loopback();

// The exporter never drops a slow client here, so that no test passes because of that limit.
std::unique_ptr<Exporter> serve(const std::string& text, int port = 0) {
  constexpr unsigned kNeverS = 100'000;
  return Exporter::start(kLoopback, port, [text] { return text; }, {}, kNeverS);
}

int port_of(const std::string& endpoint) {
  return std::stoi(endpoint.substr(endpoint.rfind(':') + 1));
}

TEST(Exporter, ServesThePageAsPrometheusText) {
  const auto exporter = serve("packtrain_step 3\n");
  const HttpAnswer answer = request(exporter->endpoint(), "GET", "/metrics");
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.body, "packtrain_step 3\n");
  EXPECT_NE(answer.headers.find("Content-Type: text/plain; version=0.0.4"), std::string::npos);
}

TEST(Exporter, RendersThePageForEveryScrape) {
  std::atomic<int> num_scrapes = 0;
  const auto exporter =
      Exporter::start(kLoopback, 0, [&] { return std::to_string(++num_scrapes); });
  EXPECT_EQ(request(exporter->endpoint(), "GET", "/metrics").body, "1");
  EXPECT_EQ(request(exporter->endpoint(), "GET", "/metrics?x=y").body, "2");
}

TEST(Exporter, AnswersHeadWithoutABody) {
  const auto exporter = serve("12345");
  const HttpAnswer answer = request(exporter->endpoint(), "HEAD", "/metrics");
  EXPECT_EQ(answer.status, 200);
  EXPECT_NE(answer.headers.find("Content-Length: 5"), std::string::npos);
  EXPECT_EQ(answer.body, "");
}

TEST(Exporter, SaysWhetherTheProcessIsWell) {
  std::string trouble;
  const auto exporter =
      Exporter::start(kLoopback, 0, [] { return "page"; }, [&trouble] { return trouble; });
  const HttpAnswer well = request(exporter->endpoint(), "GET", "/healthz");
  EXPECT_EQ(well.status, 200);
  EXPECT_EQ(well.body, "ok\n");
  trouble = "no progress for 400 s";
  const HttpAnswer ill = request(exporter->endpoint(), "GET", "/healthz");
  EXPECT_EQ(ill.status, 503);
  EXPECT_EQ(ill.body, "no progress for 400 s\n");
  EXPECT_EQ(request(exporter->endpoint(), "HEAD", "/healthz").status, 503);
  EXPECT_EQ(request(exporter->endpoint(), "POST", "/healthz").status, 405);
}

TEST(Exporter, WaitsForOneMoreScrapeAndNoLonger) {
  const auto exporter = serve(std::string(1'000'000, 'x'));
  request(exporter->endpoint(), "GET", "/metrics");  // one before does not count
  std::atomic<bool> scraped = false;
  std::atomic<bool> is_over = false;
  std::thread scraper([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    // Neither of these is a scrape.
    request(exporter->endpoint(), "GET", "/healthz");
    request(exporter->endpoint(), "HEAD", "/metrics");
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    scraped = true;
    // The waiting may begin only now: one of these comes after that.
    while (!is_over) {
      EXPECT_EQ(request(exporter->endpoint(), "GET", "/metrics").body.size(), 1'000'000U);
    }
  });
  exporter->wait_for_scrape(100'000);
  is_over = true;
  EXPECT_TRUE(scraped);
  scraper.join();
}

TEST(Exporter, WaitsForAScrapeNoLongerThanItMay) {
  const auto exporter = serve("page");
  const auto begin = Clock::now();
  exporter->wait_for_scrape(0.2);
  EXPECT_GE(Clock::now() - begin, std::chrono::milliseconds(200));
}

TEST(Exporter, KnowsNoOtherPath) {
  const auto exporter = serve("secret");
  for (const char* path : {"/", "/metrics/", "/metric", "/../metrics"}) {
    const HttpAnswer answer = request(exporter->endpoint(), "GET", path);
    EXPECT_EQ(answer.status, 404) << path;
    EXPECT_EQ(answer.body.find("secret"), std::string::npos) << path;
  }
}

TEST(Exporter, AllowsOnlyGetAndHead) {
  const auto exporter = serve("secret");
  const std::string body = "Content-Length: 3\r\n\r\nabc";
  for (const char* method : {"POST", "PUT", "DELETE", "PATCH", "OPTIONS"}) {
    const HttpAnswer answer = request(exporter->endpoint(), method, "/metrics", body);
    EXPECT_EQ(answer.status, 405) << method;
    EXPECT_NE(answer.headers.find("Allow: GET, HEAD"), std::string::npos) << method;
  }
}

TEST(Exporter, IgnoresTheBodyOfAGet) {
  const auto exporter = serve("page");
  const std::string body = "Content-Length: 3\r\n\r\nabc";
  EXPECT_EQ(request(exporter->endpoint(), "GET", "/metrics", body).body, "page");
}

TEST(Exporter, AnswersSeveralRequestsOfOneConnection) {
  const auto exporter = serve("page");
  Connection connection(exporter->endpoint());
  connection.send("GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n");
  connection.send("GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
  const std::string bytes = connection.receive_all();
  const std::size_t first = bytes.find("\r\n\r\npage");
  ASSERT_NE(first, std::string::npos);
  EXPECT_NE(bytes.find("\r\n\r\npage", first + 1), std::string::npos);
}

TEST(Exporter, SurvivesGarbage) {
  const auto exporter = serve("page");
  const std::string garbage[] = {std::string("\0\1\2\377\r\n\r\n", 8),
                                 "GET\r\n\r\n",
                                 "GET /metrics HTTP/9.9\r\n\r\n",
                                 "GET /metrics HTTP/1.1\r\nno colon\r\n\r\n",
                                 std::string(200'000, 'A'),
                                 "GET /" + std::string(100'000, 'a') + " HTTP/1.1\r\n\r\n",
                                 "POST /metrics HTTP/1.1\r\nHost: a\r\nContent-Length: -5\r\n\r\n"};
  for (const std::string& bytes : garbage) {
    Connection connection(exporter->endpoint());
    connection.send(bytes);
  }
  EXPECT_EQ(request(exporter->endpoint(), "GET", "/metrics").body, "page");
}

TEST(Exporter, AnswersWhileAHundredSlowClientsHang) {
  const auto exporter = serve(std::string(100'000, 'x'));
  std::vector<std::unique_ptr<Connection>> slow;
  for (int i = 0; i < 100; ++i) {
    slow.push_back(std::make_unique<Connection>(exporter->endpoint()));
    // Half never finish the request, half never read the answer.
    slow.back()->send(i % 2 == 0 ? "GET /metr" : "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n");
  }
  EXPECT_EQ(request(exporter->endpoint(), "GET", "/metrics").body.size(), 100'000U);
}

TEST(Exporter, StopsImmediatelyWithClientsHanging) {
  auto exporter = serve(std::string(10'000'000, 'x'));
  std::vector<std::unique_ptr<Connection>> slow;
  for (int i = 0; i < 10; ++i) {
    slow.push_back(std::make_unique<Connection>(exporter->endpoint()));
    slow.back()->send("GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n");
  }
  exporter.reset();  // the clients hang on
}

TEST(Exporter, StopsWhileBeingScraped) {
  auto exporter = serve(std::string(100'000, 'x'));
  std::atomic<int> num_scrapes = 0;
  std::vector<std::thread> scrapers;
  for (int i = 0; i < 4; ++i) {
    scrapers.emplace_back([&num_scrapes, endpoint = exporter->endpoint()] {
      try {
        for (;; ++num_scrapes) request(endpoint, "GET", "/metrics");
      } catch (const std::runtime_error&) {  // refused: the exporter is gone
      }
    });
  }
  while (num_scrapes < 20) std::this_thread::yield();
  exporter.reset();
  for (std::thread& scraper : scrapers) scraper.join();
}

TEST(Exporter, TakesTheNextPortWhenTheFirstIsTaken) {
  const auto first = serve("first");
  const int port = port_of(first->endpoint());
  const auto second = serve("second", port);
  ASSERT_NE(second, nullptr);
  EXPECT_GT(port_of(second->endpoint()), port);
  EXPECT_EQ(request(first->endpoint(), "GET", "/metrics").body, "first");
  EXPECT_EQ(request(second->endpoint(), "GET", "/metrics").body, "second");
}

TEST(Exporter, ReusesAPortThatARunBeforeItLeft) {
  auto exporter = serve("before");
  const std::string endpoint = exporter->endpoint();
  {
    // The server closes this connection first, which leaves its port in TIME_WAIT.
    Connection connection(endpoint);
    connection.send("GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    connection.receive_all();
  }
  exporter.reset();
  EXPECT_EQ(serve("after", port_of(endpoint))->endpoint(), endpoint);
}

TEST(Exporter, IsNothingWhenNoPortIsFree) {
  const auto last = ListenSocket::open(kLoopback, 65535);
  EXPECT_EQ(serve("page", 65535), nullptr);
}

TEST(Exporter, TriesAHundredPorts) {
  std::vector<ListenSocket> taken;
  const int first = 20000;
  for (int i = 0; i < ListenSocket::kMaxPortTries; ++i) {
    if (auto socket = ListenSocket::open(kLoopback, first + i)) taken.push_back(std::move(*socket));
  }
  EXPECT_EQ(serve("page", first), nullptr);
  EXPECT_NE(serve("page", first + 1), nullptr);
}

TEST(Exporter, ListensOnIPv6) {
  if (access("/proc/net/if_inet6", R_OK) != 0) {
    EXPECT_THROW(Exporter::start("::1", 0, [] { return ""; }), Error);
    return;
  }
  const auto exporter = Exporter::start("::1", 0, [] { return "six"; });
  ASSERT_NE(exporter, nullptr);
  EXPECT_TRUE(exporter->endpoint().starts_with("[::1]:"));
  EXPECT_EQ(request(exporter->endpoint(), "GET", "/metrics").body, "six");
}

TEST(Exporter, NamesAWrongAddressOrPort) {
  const struct {
    std::string address;
    int port;
    const char* named;
  } cases[] = {{"localhost", 0, "'localhost'"}, {"", 0, "''"},         {"127.0.0.1:80", 0, ":80'"},
               {"192.0.2.1", 0, "192.0.2.1"},   {kLoopback, -1, "-1"}, {kLoopback, 65536, "65536"}};
  for (const auto& [address, port, named] : cases) {
    try {
      Exporter::start(address, port, [] { return ""; });
      ADD_FAILURE() << address << ":" << port << " was taken";
    } catch (const Error& error) {
      EXPECT_EQ(error.category(), ErrorCategory::kConfig);
      EXPECT_NE(error.message().find(named), std::string::npos) << error.message();
    }
  }
}

TEST(Exporter, WorksWithMoreThanAThousandOpenFiles) {
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  constexpr rlim_t kNumFiles = 1100;  // select() stops at 1024
  limit.rlim_cur = std::max<rlim_t>(limit.rlim_cur, kNumFiles + 100);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0) << "the test needs 1200 file descriptors";
  std::vector<int> descriptors;
  for (rlim_t i = 0; i < kNumFiles; ++i) descriptors.push_back(dup(STDERR_FILENO));
  EXPECT_GT(descriptors.back(), 1024);
  EXPECT_EQ(request(serve("page")->endpoint(), "GET", "/metrics").body, "page");
  for (const int descriptor : descriptors) close(descriptor);
}

}  // namespace
}  // namespace packtrain
