#include "launch/doctor/machine.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <system_error>

#include "framework/core/descriptor.h"
#include "framework/core/error.h"
#include "framework/core/file.h"
#include "framework/core/hash.h"
#include "framework/core/process.h"

namespace packtrain {
namespace {

constexpr const char* kGpuQuery =
    "--query-gpu=power.limit,power.default_limit,clocks.sm,clocks.max.sm,"
    "clocks_throttle_reasons.hw_thermal_slowdown,clocks_throttle_reasons.hw_power_brake_slowdown,"
    "ecc.errors.uncorrected.volatile.total";

// Libraries that a run depends on; a wrong one is a frequent mistake.
constexpr auto kLibraries = std::to_array<std::string_view>(
    {"libtorch_cpu.so", "libtorch_cuda.so", "libcudart.so", "libcublasLt.so", "libcudnn.so",
     "libnccl.so", "libmpi.so", "libcuda.so"});

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(separator, begin), text.size());
    std::string_view part = text.substr(begin, end - begin);
    while (!part.empty() && part.front() == ' ') part.remove_prefix(1);
    parts.emplace_back(part);
    begin = end + 1;
  }
  return parts;
}

// Files mapped by this process: name -> path.
std::map<std::string, std::string> loaded_libraries() {
  std::map<std::string, std::string> found;
  for (const std::string& line :
       split(read_text("/proc/self/maps", ErrorCategory::kInternal), '\n')) {
    const std::size_t begin = line.find('/');
    if (begin == std::string::npos) continue;
    const std::filesystem::path path = line.substr(begin);
    const std::string name = path.filename().string();
    const bool is_known = std::ranges::any_of(
        kLibraries, [&name](const std::string_view known) { return name.starts_with(known); });
    if (is_known) found[name] = path.string();
  }
  return found;
}

double number_or_zero(const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  return end == text.c_str() ? 0.0 : value;
}

// nvidia-smi's name of the GPU that CUDA numbers `index` in this process.
std::string smi_name(int index) {
  const char* const chosen = std::getenv("CUDA_VISIBLE_DEVICES");
  if (chosen == nullptr) return std::to_string(index);
  const auto names = split(chosen, ',');
  const auto place = static_cast<std::size_t>(index);
  return place < names.size() ? names[place] : std::to_string(index);
}

// Reads to the end of the pipe.
std::string drain(int descriptor) {
  std::string text;
  std::array<char, 4096> buffer{};
  for (;;) {
    const ssize_t size = ::read(descriptor, buffer.data(), buffer.size());
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) return text;
    text.append(buffer.data(), static_cast<std::size_t>(size));
  }
}

constexpr std::int64_t kNoLimit = std::int64_t{1} << 30U;

std::int64_t soft_limit(__rlimit_resource_t resource) {
  rlimit limit{};
  ::getrlimit(resource, &limit);
  return static_cast<std::int64_t>(std::min<rlim_t>(limit.rlim_cur, kNoLimit));
}

}  // namespace

std::optional<std::string> output_of(const std::vector<std::string>& words) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return std::nullopt;
  const Descriptor reading(ends[0]);
  auto writing = std::make_unique<Descriptor>(ends[1]);
  try {
    Process process({.words = words, .output = writing->get()});
    writing.reset();
    std::string text = drain(reading.get());
    if (process.wait().succeeded()) return text;
  } catch (const Error&) {  // there is no such program
  }
  return std::nullopt;
}

void find_versions(const std::string& program, Facts& facts) {
  const std::string hash = hash_file("/proc/self/exe", ErrorCategory::kInternal);
  facts["program"] = fmt::format("{}, program file {}", program, hash.substr(0, 12));
  facts["libraries"] = Facts::object();
  std::string sizes;  // its location may differ between hosts, its content may not
  for (const auto& [name, path] : loaded_libraries()) {
    std::error_code failure;
    const auto size = std::filesystem::file_size(path, failure);
    facts["libraries"][name] = path;
    sizes += fmt::format("{} {}\n", name, failure ? 0 : size);
  }
  facts["library_hash"] = hash_bytes(std::as_bytes(std::span(sizes)));
}

void find_limits(Facts& facts) {
  facts["open_files"] = soft_limit(RLIMIT_NOFILE);
  // The limit counts all processes and threads of the user on the host. The kernel does not apply
  // it to root.
  facts["user_processes"] = ::geteuid() == 0 ? kNoLimit : soft_limit(RLIMIT_NPROC);
  struct statvfs shared{};
  const bool known = ::statvfs("/dev/shm", &shared) == 0;
  facts["shared_memory_bytes"] = known ? shared.f_bavail * shared.f_frsize : 0;
}

Facts parse_gpu(std::string_view query_line, std::string_view nvlink_status) {
  const auto values = split(query_line.substr(0, query_line.find('\n')), ',');
  const auto value = [&values](std::size_t k) { return k < values.size() ? values[k] : ""; };
  const auto is_active = [](const std::string& text) { return text.starts_with("Active"); };
  int num_up = 0;
  int num_down = 0;
  for (const std::string& line : split(nvlink_status, '\n')) {
    if (line.find("Link ") == std::string::npos) continue;
    num_up += static_cast<int>(line.find("GB/s") != std::string::npos);
    num_down += static_cast<int>(line.find("inactive") != std::string::npos);
  }
  return {{"power_limit_w", number_or_zero(value(0))},
          {"power_default_w", number_or_zero(value(1))},
          {"sm_mhz", number_or_zero(value(2))},
          {"sm_max_mhz", number_or_zero(value(3))},
          {"throttled", is_active(value(4)) || is_active(value(5))},
          {"ecc_errors", static_cast<std::int64_t>(number_or_zero(value(6)))},
          {"nvlinks", num_up},
          {"nvlinks_down", num_up > 0 ? num_down : 0}};  // all down: a GPU without NVLink
}

void find_gpu(int index, const std::string& name, Facts& facts) {
  const std::string id = smi_name(index);
  const auto query =
      output_of({"nvidia-smi", "-i", id, kGpuQuery, "--format=csv,noheader,nounits"});
  const auto links = output_of({"nvidia-smi", "nvlink", "--status", "-i", id});
  facts["gpu"] = query ? parse_gpu(*query, links.value_or("")) : Facts::object();
  facts["gpu"]["name"] = name;
}

}  // namespace packtrain
