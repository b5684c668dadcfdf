#include "launch/cli/verify_data.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "framework/core/logging.h"
#include "framework/data/token_store.h"
#include "launch/cli/arguments.h"
#include "launch/cli/in_world.h"
#include "launch/cli/output.h"

namespace packtrain {
namespace {

std::string to_json(const TokenStore& store) {
  const StoreInfo& info = store.info();
  const nlohmann::ordered_json json = {{"store", store.folder()},
                                       {"ok", true},
                                       {"num_examples", info.num_examples},
                                       {"num_tokens", info.num_tokens},
                                       {"has_digests", !store.content_digest().empty()}};
  return json.dump() + "\n";
}

std::string to_text(const TokenStore& store) {
  const StoreInfo& info = store.info();
  const char* found = store.content_digest().empty()
                          ? "sound; it has no digests (an older version wrote it), so tokens that "
                            "became others of the vocabulary are not found"
                          : "as it was written";
  return fmt::format("{}: {} examples, {} tokens: {}\n", store.folder(), info.num_examples,
                     info.num_tokens, found);
}

}  // namespace

int run_verify_data(int argc, char** argv) {
  return in_world([argc, argv](World& world) {
    CLI::App app(
        "Reads every byte of token stores and compares it with store.json: offsets, ids, masks, "
        "counts and digests. Ends with 65 where one is damaged. Several ranks divide the files.",
        "packtrain verify --data");
    std::vector<std::string> folders;
    bool as_json = false;
    app.add_option("--data", folders, "stores of `packtrain prepare`")->required();
    app.add_flag("--json", as_json, "print one JSON object a store");
    if (!parse_arguments(app, argc, argv)) return;
    start_logging(world.rank(), world.size(), "");
    for (const std::string& folder : folders) {
      const auto store = TokenStore::open(folder);
      store->check_all(static_cast<std::size_t>(world.rank()),
                       static_cast<std::size_t>(world.size()));
      world.control().barrier();
      if (world.rank() == 0) print_result(as_json ? to_json(*store) : to_text(*store));
    }
  });
}

}  // namespace packtrain
