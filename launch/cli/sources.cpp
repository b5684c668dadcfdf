#include "launch/cli/sources.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "framework/config/load.h"
#include "framework/core/error.h"
#include "framework/core/file.h"
#include "framework/core/logging.h"
#include "framework/data/store_format.h"
#include "launch/cli/tools.h"
#include "parallel/communicators/collectives.h"

namespace packtrain {
namespace {

using Json = nlohmann::ordered_json;

// hf:// is an address of other programs, which the error of a missing folder explains.
bool is_of_hub(const std::string& name) {
  return name.starts_with("hf:") && !name.starts_with("hf://");
}

// A folder without the files of a store, or with some of them alone, is named by the store's own
// errors.
bool is_unprepared(const std::string& path) {
  if (is_of_hub(path)) return true;
  std::error_code ignored;
  if (std::filesystem::is_regular_file(path, ignored)) return true;
  if (!std::filesystem::is_directory(path, ignored)) return false;
  if (std::filesystem::exists(path + "/" + kStoreManifestName, ignored)) return false;
  return !std::filesystem::exists(path + "/" + shard_name(0), ignored) &&
         !std::filesystem::is_empty(path, ignored);
}

// Calls visit(path) for each path of data.
template <class Visit>
void for_each_path(DataSection& data, const Visit& visit) {
  for (TrainStore& store : data.train) visit(store.path);
  for (ValidationStore& store : data.validation) visit(store.path);
}

// The file that the tool writes its answer to.
class AnswerFile {
 public:
  AnswerFile() : path_(std::filesystem::temp_directory_path() / "packtrain-sources-XXXXXX") {
    const int descriptor = ::mkstemp(path_.data());
    if (descriptor < 0) {
      throw Error(ErrorCategory::kConfig, fmt::format("{}: cannot be made", path_),
                  "Set TMPDIR to a folder that can be written to.");
    }
    ::close(descriptor);
  }
  ~AnswerFile() { ::unlink(path_.c_str()); }
  AnswerFile(const AnswerFile&) = delete;
  AnswerFile& operator=(const AnswerFile&) = delete;

  const std::string& path() const { return path_; }
  // The error of the tool is thrown.
  std::string read(const std::string& reason) const {
    std::string text = read_text(path_, ErrorCategory::kInternal);
    const Json answer = Json::parse(text, nullptr, false);
    if (answer.is_object() && answer.contains("error")) {
      throw Error(static_cast<ErrorCategory>(answer.at("exit_code").get<int>()),
                  answer.at("error").get<std::string>(), answer.at("advice").get<std::string>());
    }
    if (!reason.empty() || !answer.is_object()) {
      throw Error(ErrorCategory::kConfig, "cannot prepare what the configuration names: " + reason,
                  "The lines above have the reason.");
    }
    return text;
  }

 private:
  std::string path_;
};

// {"model": FOLDER or absent, "data": {PATH: STORE}}
std::string ask_tool(std::vector<std::string> words) {
  const AnswerFile answer;
  words.insert(words.end(), {"--answer", answer.path(), "--program",
                             std::filesystem::read_symlink("/proc/self/exe").string()});
  return answer.read(call_tool("sources.py", words));
}

std::vector<std::string> words_for_model(const Config& config) {
  if (!is_of_hub(config.model.path)) return {};
  return {"--model", config.model.path};
}

std::vector<std::string> words_for_data(Config& config) {
  std::vector<std::string> words;
  for_each_path(config.data, [&words](const std::string& path) {
    if (is_unprepared(path)) words.insert(words.end(), {"--data", path});
  });
  if (words.empty()) return {};
  if (config.model.path.empty()) {
    throw Error(ErrorCategory::kConfig,
                fmt::format("data: {} is no token store, and without model.path there is no "
                            "tokenizer to make one with",
                            words[1]),
                "Make it with `packtrain prepare`, or set model.path.");
  }
  words.insert(words.end(), {"--tokenizer", config.model.path, "--stores",
                             config.data.prepared_path.empty() ? config.run.output + "/stores"
                                                               : config.data.prepared_path});
  for (const std::string& option : config.data.prepare_options) {
    words.push_back("--option=" + option);
  }
  return words;
}

// Of a configuration that names token stores alone.
void warn_of_prepare_options(const Config& config) {
  if (config.data.prepare_options.empty()) return;
  log_warning(
      "data.prepare_options has no effect: data.train and data.validation name no data that is to "
      "be prepared\n  Prepare the stores again with these options, or leave them out.");
}

// The first rank of each other host downloads the revision that rank 0 has found.
void download_on_hosts(const std::string& name, const std::string& folder, World& world) {
  std::optional<Error> error;
  if (world.local_rank() == 0 && !std::filesystem::exists(folder)) {
    try {
      const std::string revision = std::filesystem::path(folder).filename().string();
      ask_tool({"--model", name.substr(0, name.find('@')) + "@" + revision});
    } catch (const Error& thrown) {
      error = thrown;
    }
  }
  throw_first_rank_error(error, world.control());
  if (std::filesystem::exists(folder)) return;
  throw Error(ErrorCategory::kConfig,
              fmt::format("model.path: {} is in {} on the first host, and not on {}", name, folder,
                          world.host()),
              "Set HF_HOME to the same folder on all hosts.");
}

void use_model(Config& config, const std::string& folder, ConfigArguments& arguments) {
  config.model.path = folder;
  arguments.overrides.push_back("model.path=" + config_value(config, "model.path"));
}

void use_stores(Config& config, const Json& stores, ConfigArguments& arguments) {
  if (stores.empty()) return;
  for_each_path(config.data, [&stores](std::string& path) {
    if (stores.contains(path)) path = stores.at(path).get<std::string>();
  });
  for (const char* key : {"data.train", "data.validation"}) {
    arguments.overrides.push_back(fmt::format("{}={}", key, config_value(config, key)));
  }
}

}  // namespace

Config load_with_sources(ConfigArguments& arguments, World* world) {
  Config config = load_config(arguments.path, arguments.overrides, arguments.unread);
  std::vector<std::string> words = words_for_data(config);
  if (words.empty() && (world == nullptr || world->rank() == 0)) warn_of_prepare_options(config);
  const std::vector<std::string> of_model = words_for_model(config);
  words.insert(words.end(), of_model.begin(), of_model.end());
  if (words.empty()) return config;
  const auto ask = [&words] { return ask_tool(words); };
  const Json answer =
      Json::parse(world == nullptr ? ask() : run_on_first_rank(world->control(), ask));
  if (!of_model.empty()) {
    const std::string folder = answer.at("model").get<std::string>();
    if (world != nullptr) download_on_hosts(config.model.path, folder, *world);
    use_model(config, folder, arguments);
  }
  use_stores(config, answer.at("data"), arguments);
  return load_config(arguments.path, arguments.overrides, arguments.unread);
}

void warn_of_unread_keys(const ConfigArguments& arguments) {
  for (const UnreadKey& key : arguments.unread) {
    log_warning("{}\n  {}", key.what, key.advice);
  }
}

std::string folder_of_model(const std::string& name) {
  if (!is_of_hub(name)) return name;
  return Json::parse(ask_tool({"--model", name})).at("model").get<std::string>();
}

Config load_with_model(ConfigArguments& arguments) {
  Config config = load_config(arguments.path, arguments.overrides);
  if (!is_of_hub(config.model.path)) return config;
  use_model(config, folder_of_model(config.model.path), arguments);
  return config;
}

}  // namespace packtrain
