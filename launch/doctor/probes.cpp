#include "launch/doctor/probes.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <span>
#include <thread>

#include "framework/core/clock.h"
#include "framework/core/error.h"
#include "framework/core/file.h"
#include "framework/core/hash.h"
#include "framework/metrics/listen_socket.h"
#include "launch/doctor/probe_watch.h"
#include "parallel/communicators/collectives.h"

namespace packtrain {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMaxDiskBytes = std::size_t{16} << 20U;  // of a rank
constexpr std::size_t kMaxDiskBytesOfAll = std::size_t{4} << 30U;
constexpr int kDiskRounds = 3;
constexpr auto kInjectedHang = std::chrono::seconds(2);
constexpr double kInjectedSkewS = 5;
constexpr auto kViewTimeout = std::chrono::seconds(5);
constexpr int kClockRounds = 5;

double wall_clock_s() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

void remove_quietly(const std::string& path) {
  std::error_code ignored;
  std::filesystem::remove(path, ignored);
}

double write_and_sync(const std::string& path, std::size_t num_bytes, std::chrono::seconds delay) {
  const std::vector<std::byte> bytes(num_bytes, std::byte{7});
  const auto begin = Clock::now();
  OutputFile file(path, OutputFile::Mode::kCreate, ErrorCategory::kDevice);
  file.write(std::span(bytes));
  file.sync();
  file.close();
  std::this_thread::sleep_for(delay);
  return static_cast<double>(num_bytes) / 1e6 / seconds_since(begin);
}

// Returns "" when the file holds `wanted`. A network file system may show it late.
std::string wait_for_text(const std::string& path, const std::string& wanted) {
  const auto begin = Clock::now();
  std::string got = "there is no such file";
  while (Clock::now() - begin < kViewTimeout) {
    try {
      if (read_text(path, ErrorCategory::kDevice) == wanted) return "";
      got = "it holds something else";
    } catch (const Error&) {
      got = "there is no such file";
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return fmt::format("rank 0 wrote {}, and here {}", path, got);
}

}  // namespace

InjectedFault parse_injected_fault(const std::string& text, int num_ranks) {
  constexpr std::array kKinds = {"disk", "products", "clock", "folder"};
  const std::size_t colon = std::min(text.find(':'), text.size());
  InjectedFault trouble{text.substr(0, colon), 0};
  const char* const end = text.data() + text.size();
  const char* const begin = text.data() + std::min(colon + 1, text.size());
  const bool known = std::ranges::find(kKinds, trouble.kind) != kKinds.end();
  const auto [rest, failure] = std::from_chars(begin, end, trouble.rank);
  const bool exists = trouble.rank >= 0 && trouble.rank < num_ranks;
  if (known && failure == std::errc() && rest == end && exists) return trouble;
  throw Error(
      ErrorCategory::kConfig,
      fmt::format("--inject: got '{}', wanted KIND:RANK, KIND one of disk, products, clock, "
                  "folder, RANK from 0 to {}",
                  text, num_ranks - 1));
}

std::size_t disk_test_bytes(int num_ranks) {
  return std::min(kMaxDiskBytes, kMaxDiskBytesOfAll / static_cast<std::size_t>(num_ranks));
}

void probe_disk(const std::string& folder, const InjectedFault& trouble, World& world,
                Facts& facts) {
  facts["disk_folder"] = folder;
  const std::string path = fmt::format("{}/.doctor-{}", folder, world.rank());
  const auto delay = trouble.is("disk", world) ? kInjectedHang : std::chrono::seconds(0);
  facts["disk_error"] = "";
  world.control().barrier();
  try {
    make_folders(folder, ErrorCategory::kDevice);
    double best = 0;
    const std::size_t num_bytes = disk_test_bytes(world.size());
    for (int k = 0; k < kDiskRounds; ++k) {
      best = std::max(best, write_and_sync(path, num_bytes, delay));
    }
    facts["disk_mb_s"] = best;
  } catch (const Error& error) {
    facts["disk_error"] = error.message();
  }
  remove_quietly(path);
}

void probe_shared_folder(const std::string& folder, const InjectedFault& trouble, World& world,
                         Facts& facts) {
  const std::string token =
      broadcast_text(fmt::format("{} {:.9f}\n", world.host(), wall_clock_s()), 0, world.control());
  const std::string path = folder + "/.doctor-view";
  if (world.rank() == 0) {
    try {
      write_text_atomically(path, token, ErrorCategory::kDevice);
    } catch (const Error&) {  // probe_disk has reported it
    }
  }
  world.control().barrier();
  const bool elsewhere = trouble.is("folder", world);
  facts["view_error"] = wait_for_text(elsewhere ? folder + "/elsewhere/.doctor-view" : path, token);
  world.control().barrier();
  if (world.rank() == 0) remove_quietly(path);
}

void probe_clock(const InjectedFault& trouble, World& world, Facts& facts) {
  double least = INFINITY;
  for (int round = 0; round < kClockRounds; ++round) {
    world.control().barrier();
    const double mine = wall_clock_s();
    double theirs = mine;
    world.control().broadcast(&theirs, sizeof theirs, 0, nullptr);
    const double skew = mine - theirs + (trouble.is("clock", world) ? kInjectedSkewS : 0);
    if (std::abs(skew) < std::abs(least)) least = skew;
  }
  facts["clock_skew_s"] = least;
}

void probe_stores(const Config& config, Facts& facts) {
  std::vector<std::string> paths;
  for (const TrainStore& store : config.data.train) paths.push_back(store.path);
  for (const ValidationStore& store : config.data.validation) paths.push_back(store.path);
  if (paths.empty()) return;
  for (const std::string& path : paths) {
    const std::string description = path + "/store.json";
    const bool there = std::filesystem::exists(description);
    facts["stores"][path] = there ? hash_file(description, ErrorCategory::kDevice) : "missing";
  }
}

void probe_port(const MetricsSection& metrics, const World& world, Facts& facts) {
  if (!metrics.serve) return;
  const int wanted = metrics.port + world.local_rank();
  facts["port_error"] = "";
  try {
    // A port beyond the last is no free port, as in a run.
    const auto socket = wanted <= ListenSocket::kMaxPort
                            ? ListenSocket::open(metrics.address, wanted)
                            : std::nullopt;
    facts["port"] = socket ? fmt::format("metrics of rank 0 on {}", socket->endpoint())
                           : fmt::format("no free port from {} on: no metrics", wanted);
  } catch (const Error& error) {
    facts["port"] = metrics.address;
    facts["port_error"] = error.message();
  }
}

}  // namespace packtrain
