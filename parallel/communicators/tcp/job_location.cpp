#include "parallel/communicators/tcp/job_location.h"

#include <fmt/format.h>

#include <charconv>

#include "framework/core/error.h"

namespace packtrain {
namespace {

std::string text_in(const Environment& environment, const char* variable) {
  const char* text = environment(variable);
  return text == nullptr ? "" : text;
}

std::optional<int> number_in(const Environment& environment, const char* variable) {
  const std::string text = text_in(environment, variable);
  int number = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || fault != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// The variable that shows that this process is one of several.
const char* variable_of_launcher(const Environment& environment) {
  for (const char* variable : {"WORLD_SIZE", "LOCAL_WORLD_SIZE"}) {
    if (number_in(environment, variable).value_or(0) > 1) return variable;
  }
  if (environment("SLURM_STEP_ID") == nullptr) return nullptr;  // a batch script, one process
  const char* tasks =
      environment("SLURM_STEP_NUM_TASKS") != nullptr ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS";
  return number_in(environment, tasks).value_or(0) > 1 ? tasks : nullptr;
}

class Reader {
 public:
  Reader(const Environment& environment, const char* launched)
      : environment_(environment), launched_(launched) {}

  // Throws where the variable is not set, or is no number from `least` to `most`.
  int number(const char* variable, int least, int most) const {
    const auto found = number_in(environment_, variable);
    if (!found || *found < least || *found > most) {
      reject(variable, fmt::format("a number from {} to {}", least, most));
    }
    return *found;
  }
  std::string text(const char* variable) const {
    std::string found = text_in(environment_, variable);
    if (found.empty()) reject(variable, "the host of rank 0");
    return found;
  }

 private:
  [[noreturn]] void reject(const char* variable, const std::string& wanted) const {
    const std::string found = text_in(environment_, variable);
    throw Error(
        ErrorCategory::kDevice,
        fmt::format("{}={}: this process is one of several, but {} is {}; wanted {}. Alone, each "
                    "would be a whole run of one rank, all in the same folder; nothing was started "
                    "or written",
                    launched_, text_in(environment_, launched_), variable,
                    found.empty() ? "not set" : "'" + found + "'", wanted),
        fmt::format("Start it by `packtrain-run -n N`, by mpirun, by `srun --mpi=pmix`, by "
                    "`torchrun --no-python`, or set RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT. "
                    "If one process is meant, unset {}.",
                    launched_));
  }

  const Environment& environment_;
  const char* launched_;
};

constexpr int kMaxRanks = 1 << 20;
constexpr int kMaxPort = 65535;

JobLocation place_of_torchrun(const Environment& environment, const Reader& read) {
  JobLocation place;
  place.size = read.number("WORLD_SIZE", 2, kMaxRanks);
  place.rank = read.number("RANK", 0, place.size - 1);
  place.address = read.text("MASTER_ADDR");
  place.port = static_cast<std::uint16_t>(read.number("MASTER_PORT", 1, kMaxPort));
  place.store_is_served = text_in(environment, "TORCHELASTIC_USE_AGENT_STORE") == "True";
  // torchrun's store outlives its restarts, so keys need the restart count.
  place.start = fmt::format("{}/{}", text_in(environment, "TORCHELASTIC_RUN_ID"),
                            text_in(environment, "TORCHELASTIC_RESTART_COUNT"));
  return place;
}

// Below the range of ephemeral ports.
int port_of_step(int job, int step) {
  constexpr int kFirst = 20000;
  constexpr int kPorts = 10000;
  return kFirst + static_cast<int>((job * 31LL + step) % kPorts);
}

JobLocation place_of_slurm(const Environment& environment, const char* tasks, const Reader& read) {
  JobLocation place;
  place.size = read.number(tasks, 2, kMaxRanks);
  place.rank = read.number("SLURM_PROCID", 0, place.size - 1);
  place.address = text_in(environment, "MASTER_ADDR");
  // A node's name in Slurm may not be resolvable. On one host it is not needed.
  if (place.address.empty() && number_in(environment, "SLURM_STEP_NUM_NODES") == 1) {
    place.address = "127.0.0.1";
  }
  if (place.address.empty()) place.address = first_host(read.text("SLURM_STEP_NODELIST"));
  const int job = number_in(environment, "SLURM_JOB_ID").value_or(0);
  const int step = number_in(environment, "SLURM_STEP_ID").value_or(0);
  const int port = environment("MASTER_PORT") == nullptr ? port_of_step(job, step)
                                                         : read.number("MASTER_PORT", 1, kMaxPort);
  place.port = static_cast<std::uint16_t>(port);
  place.start = fmt::format("slurm-{}.{}", job, step);
  return place;
}

}  // namespace

std::string first_host(const std::string& list) {
  const std::size_t end = list.find_first_of(",[");
  if (end == std::string::npos || list[end] == ',') return list.substr(0, end);
  const std::size_t number_end = list.find_first_of(",-]", end + 1);
  const std::size_t close = list.find(']', end);
  if (close == std::string::npos)
    return list;  // no list: return it unchanged, so that the following error shows it
  const std::size_t behind = list.find(',', close);
  return list.substr(0, end) + list.substr(end + 1, number_end - end - 1) +
         list.substr(close + 1, behind == std::string::npos ? behind : behind - close - 1);
}

std::optional<JobLocation> locate_in_job(const Environment& environment) {
  const char* launched = variable_of_launcher(environment);
  if (launched == nullptr) return std::nullopt;
  const Reader read(environment, launched);
  const std::string name = launched;
  if (name.starts_with("SLURM")) return place_of_slurm(environment, launched, read);
  return place_of_torchrun(environment, read);
}

}  // namespace packtrain
