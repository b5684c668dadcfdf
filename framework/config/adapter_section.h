// Settings of the section adapter.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace packtrain {

enum class AdapterKind { kNone, kLora };
// Initial values of an adapter: PEFT's init_lora_weights true, gaussian, pissa, pissa_niter_N, and
// loftq.
struct LoraInit {
  enum class Kind : std::uint8_t { kDefault, kGaussian, kPissa, kPissaNiter, kLoftq };
  Kind kind = Kind::kDefault;
  std::int64_t num_iterations = 0;  // N of pissa_niter_N

  bool is_pissa() const { return kind == Kind::kPissa || kind == Kind::kPissaNiter; }
  friend bool operator==(const LoraInit&, const LoraInit&) = default;
};

struct NumberOfName {
  std::string name;
  double number = 0;

  friend bool operator==(const NumberOfName&, const NumberOfName&) = default;
};

// A low-rank adapter over a frozen model, as PEFT's LoraConfig. Modules have the names of Hugging
// Face; `*` matches any text.
struct AdapterSection {
  AdapterKind kind = AdapterKind::kNone;
  std::string name;  // initial values depend on it; may be empty
  std::string path;  // a PEFT folder whose adapter is trained further
  std::int64_t rank = 16;
  double alpha = 32;
  bool use_rslora = false;                            // scale alpha / sqrt(rank), not alpha / rank
  bool use_dora = false;                              // magnitudes of rows are trained too
  std::vector<std::string> targets = {"all-linear"};  // modules with an adapter
  std::vector<std::string> exclude;                   // of these
  std::vector<std::int64_t> layers_to_transform;      // numbers of layers; empty: all
  std::vector<NumberOfName> rank_pattern;             // ranks of some modules
  std::vector<NumberOfName> alpha_pattern;            // alphas of some modules
  double dropout = 0;                                 // of the input of A
  LoraInit init;
  std::vector<std::string> save;  // modules that are trained whole (PEFT's modules_to_save)
  // Keys of the section, as "adapter.rank", that were set, also to their defaults. Those of a
  // resolved configuration, which has all keys, do not count. Not a key itself.
  std::vector<std::string> set_keys;

  bool is_used() const { return kind != AdapterKind::kNone || !path.empty(); }
};

// One of several adapters. Each setting is a key for which the adapter has a value of its own, such
// as adapter.rank, with that value as dump_config writes it.
struct NamedAdapter {
  std::string name;
  std::vector<std::pair<std::string, std::string>> settings;

  friend bool operator==(const NamedAdapter&, const NamedAdapter&) = default;
};

}  // namespace packtrain
