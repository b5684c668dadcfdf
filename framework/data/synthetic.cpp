#include "framework/data/synthetic.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <vector>

#include "framework/core/error.h"
#include "framework/core/random.h"
#include "framework/data/store_writer.h"

namespace packtrain {
namespace {

constexpr std::string_view kLognormal = "lognormal:";
constexpr std::string_view kConstant = "constant:";

[[noreturn]] void fail_options(const std::string& fault) {
  throw Error(ErrorCategory::kConfig, fault);
}

std::vector<std::string_view> split(std::string_view text) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t comma = text.find(',');
    parts.push_back(text.substr(0, comma));
    if (comma == std::string_view::npos) return parts;
    text.remove_prefix(comma + 1);
  }
}

template <typename T>
bool parse(std::string_view text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

bool parse_lognormal(std::string_view text, LognormalLengths& lengths) {
  const auto parts = split(text);
  if (parts.size() != 2 && parts.size() != 4) return false;
  if (!parse(parts[0], lengths.mu) || !parse(parts[1], lengths.sigma)) return false;
  return parts.size() == 2 ||
         (parse(parts[2], lengths.min_length) && parse(parts[3], lengths.max_length));
}

void check(const LognormalLengths& lengths) {
  if (!std::isfinite(lengths.mu) || !std::isfinite(lengths.sigma) || lengths.sigma < 0.0 ||
      lengths.min_length < 1 || lengths.max_length < lengths.min_length) {
    fail_options(
        fmt::format("lengths: got mu {}, sigma {}, {}..{} tokens; wanted sigma >= 0 and "
                    "1 <= MIN <= MAX",
                    lengths.mu, lengths.sigma, lengths.min_length, lengths.max_length));
  }
}

std::int32_t draw_length(const LognormalLengths& lengths, double normal) {
  const double length = std::round(std::exp(lengths.mu + lengths.sigma * normal));
  // Clipped before the conversion to an integer, because the value can be infinite.
  return static_cast<std::int32_t>(std::clamp(length, static_cast<double>(lengths.min_length),
                                              static_cast<double>(lengths.max_length)));
}

// At least the last token is supervised.
void fill_mask(std::vector<std::uint8_t>& mask, std::size_t length, double fraction) {
  const auto wanted = std::llround(fraction * static_cast<double>(length));
  const auto num_supervised = std::clamp<std::size_t>(static_cast<std::size_t>(wanted), 1, length);
  mask.assign(length - num_supervised, 0);
  mask.resize(length, 1);
}

}  // namespace

LognormalLengths parse_lengths(std::string_view text) {
  LognormalLengths lengths;
  bool valid = false;
  if (text.starts_with(kLognormal)) {
    valid = parse_lognormal(text.substr(kLognormal.size()), lengths);
  } else if (text.starts_with(kConstant)) {
    valid = parse(text.substr(kConstant.size()), lengths.min_length);
    lengths.max_length = lengths.min_length;
  }
  if (!valid) {
    fail_options(
        fmt::format("lengths: got '{}', wanted lognormal:MU,SIGMA or lognormal:MU,SIGMA,MIN,MAX "
                    "or constant:LENGTH",
                    text));
  }
  check(lengths);
  return lengths;
}

StoreInfo prepare_synthetic(const SyntheticOptions& options, const std::string& out,
                            bool overwrite) {
  check(options.lengths);
  if (options.num_examples < 1) {
    fail_options(
        fmt::format("number of examples: got {}, wanted at least 1", options.num_examples));
  }
  if (!(options.supervised_fraction > 0.0 && options.supervised_fraction <= 1.0)) {
    fail_options(fmt::format("supervised fraction: got {}, wanted more than 0 and at most 1",
                             options.supervised_fraction));
  }
  StoreInfo info;
  info.vocab_size = options.vocab_size;
  info.sources = {"synthetic"};
  const auto writer = StoreWriter::create(out, info, overwrite);
  const CounterRandom length_stream(options.seed, "synthetic lengths");
  const auto bound = static_cast<std::uint64_t>(options.vocab_size);
  std::vector<std::int32_t> ids;
  std::vector<std::uint8_t> mask;
  for (std::int64_t example = 0; example < options.num_examples; ++example) {
    const auto index = static_cast<std::uint64_t>(example);
    const CounterRandom id_stream(options.seed, "synthetic ids", index);
    ids.resize(static_cast<std::size_t>(draw_length(options.lengths, length_stream.normal(index))));
    for (std::size_t t = 0; t < ids.size(); ++t) {
      ids[t] = static_cast<std::int32_t>(id_stream.below(t, bound));
    }
    fill_mask(mask, ids.size(), options.supervised_fraction);
    writer->add(ids, mask, 0);
  }
  return writer->finish();
}

}  // namespace packtrain
