// hf_roundtrip_tool IN OUT RANKS MASTER EXPORT MAX_SHARD_BYTES TOKENIZER [VOCABULARY].
// Imports the Hugging Face folder IN as RANKS ranks, into weights of type MASTER (float32 or
// bfloat16). Exports them to OUT as type EXPORT. The ranks' ranges straddle parameters and rows.
// VOCABULARY sets the model's number of tokens. Exits with the error's code.
#include <ATen/ops/full.h>

#include <algorithm>
#include <cstdio>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "framework/core/error.h"
#include "framework/core/file.h"
#include "training/checkpoint/hugging_face.h"

namespace packtrain {
namespace {

struct Whole {
  std::vector<std::int64_t> shape;
  at::Tensor flat;
};

std::map<std::string, Whole> make_parameters(const DecoderConfig& config, at::ScalarType type) {
  std::map<std::string, Whole> parameters;
  for (const auto& [name, shape] : parameter_shapes(config)) {
    std::int64_t numel = 1;
    for (const std::int64_t size : shape) numel *= size;
    parameters[name] = {shape, at::full({numel}, std::numeric_limits<float>::quiet_NaN(), type)};
  }
  return parameters;
}

// Rank `rank`'s part of every parameter: a view, cut without regard to rows.
std::vector<ShardView> shards_of(const std::map<std::string, Whole>& parameters, int rank,
                                 int num_ranks) {
  std::vector<ShardView> shards;
  for (const auto& [name, whole] : parameters) {
    const std::int64_t share = whole.flat.numel() / num_ranks + 1;
    const std::int64_t begin = std::min(rank * share, whole.flat.numel());
    const std::int64_t numel = std::min(share, whole.flat.numel() - begin);
    ShardView shard{name, whole.shape, begin, numel, true, {}, {}};
    shard.weight = whole.flat.narrow(0, begin, numel);
    shards.push_back(shard);
  }
  return shards;
}

void run(const std::vector<std::string>& arguments) {
  const std::string& from = arguments.at(1);
  const int num_ranks = std::stoi(arguments.at(3));
  const DecoderConfig stored =
      parse_decoder_config(read_text(from + "/config.json", ErrorCategory::kConfig));
  DecoderConfig config = stored;
  if (arguments.size() > 8) config.vocab_size = std::stoll(arguments[8]);
  const at::ScalarType master = arguments.at(4) == "bfloat16" ? at::kBFloat16 : at::kFloat;
  const auto parameters = make_parameters(config, master);
  for (int rank = 0; rank < num_ranks; ++rank) {
    const auto shards = shards_of(parameters, rank, num_ranks);
    import_weights(from, stored, shards);
  }
  const auto source = [&](const std::string& name) {
    const Whole& whole = parameters.at(name);
    return whole.flat.reshape(whole.shape);
  };
  ExportOptions options;
  options.bfloat16 = arguments.at(5) == "bfloat16";
  options.max_shard_bytes = std::stoll(arguments.at(6));
  options.tokenizer_folder = arguments.at(7);
  export_model(arguments.at(2), config, source, options);
}

}  // namespace
}  // namespace packtrain

int main(int argc, char** argv) {
  if (argc != 8 && argc != 9) {
    std::fprintf(stderr, "wants 7 or 8 arguments, got %d\n", argc - 1);
    return 64;
  }
  try {
    packtrain::run({argv, argv + argc});
  } catch (const packtrain::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return error.exit_code();
  }
  return 0;
}
