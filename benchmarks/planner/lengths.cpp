#include "benchmarks/planner/lengths.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "framework/core/error.h"
#include "framework/core/random.h"

namespace packtrain {
namespace {

constexpr double kShortest = 8;
constexpr double kLongest = 4096;

// Example i reads counters 4 i to 4 i + 3.
struct Draw {
  const CounterRandom& random;
  std::uint64_t counter;

  double lognormal(double mean, double sigma) const {
    const double mu = std::log(mean) - sigma * sigma / 2;
    return std::clamp(std::exp(mu + sigma * random.normal(counter)), kShortest, kLongest);
  }
  // normal() may read a second number.
  double uniform() const { return random.uniform(counter + 3); }
};

double flan(const Draw& draw) {
  return draw.lognormal(475, 1.0);
}
double orca(const Draw& draw) {
  return draw.lognormal(290, 0.5);
}
double bimodal(const Draw& draw) {
  return draw.uniform() < 0.9 ? draw.lognormal(150, 0.4) : draw.lognormal(3000, 0.2);
}
// One in 100 is 100 times as long as the others.
double outlier(const Draw& draw) {
  return draw.uniform() < 0.01 ? 20000 : draw.lognormal(200, 0.5);
}
double uniform(const Draw& draw) {
  return kShortest + draw.uniform() * (kLongest - kShortest);
}

struct Distribution {
  const char* name;
  double (*length)(const Draw& draw);
};

constexpr std::array kDistributions = {
    Distribution{"flan", flan},       Distribution{"orca", orca},
    Distribution{"bimodal", bimodal}, Distribution{"outlier", outlier},
    Distribution{"uniform", uniform},
};

}  // namespace

std::vector<std::string> distribution_names() {
  std::vector<std::string> names;
  for (const Distribution& distribution : kDistributions) names.emplace_back(distribution.name);
  return names;
}

std::vector<std::int32_t> draw_lengths(const std::string& distribution, std::size_t count,
                                       std::uint64_t seed) {
  const auto* found = std::ranges::find(kDistributions, distribution, &Distribution::name);
  if (found == kDistributions.end()) {
    throw Error(ErrorCategory::kConfig,
                fmt::format("no distribution of lengths is called '{}', wanted one of {}",
                            distribution, fmt::join(distribution_names(), ", ")));
  }
  const CounterRandom random(seed, "benchmark lengths");
  std::vector<std::int32_t> lengths(count);
  for (std::size_t i = 0; i < count; ++i) {
    lengths[i] = static_cast<std::int32_t>(found->length({random, 4 * i}));
  }
  return lengths;
}

}  // namespace packtrain
