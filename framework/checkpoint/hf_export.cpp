#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>
#include <vector>

#include "framework/checkpoint/hf_files.h"
#include "framework/checkpoint/hf_special_tokens.h"
#include "framework/checkpoint/hf_weights.h"
#include "framework/checkpoint/hugging_face.h"
#include "framework/support/error.h"
#include "framework/support/file.h"
#include "framework/support/mapped_file.h"

namespace packtrain {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

[[noreturn]] void fail(const std::string& path, const std::string& fault,
                       const std::string& advice = "") {
  throw Error(ErrorCategory::kCheckpoint, fmt::format("{}: {}", path, fault), advice);
}

// Where transformers keeps a tokenizer's chat templates but the first.
constexpr const char* kTemplatesFolder = "additional_chat_templates";

// `folder`.tmp while it is being written; removed with the object unless committed.
class TemporaryFolder {
 public:
  explicit TemporaryFolder(std::string folder)
      : folder_(std::move(folder)), path_(folder_ + ".tmp") {
    std::error_code error;
    if (fs::exists(fs::symlink_status(folder_, error))) {
      fail(folder_, "exists already", "Give another folder, or remove this one.");
    }
    if (fs::exists(fs::symlink_status(path_, error))) {
      fail(path_, "is left from an export that was cut short", "Remove it.");
    }
    make_folders(path_, ErrorCategory::kCheckpoint);
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    if (!committed_) fs::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }

  void commit() {
    sync_folder(path_, ErrorCategory::kCheckpoint);
    std::error_code error;
    fs::rename(path_, folder_, error);
    if (error) fail(path_, fmt::format("cannot rename to {}: {}", folder_, error.message()));
    committed_ = true;
    const std::string parent = fs::path(folder_).parent_path().string();
    sync_folder(parent.empty() ? "." : parent, ErrorCategory::kCheckpoint);
  }

 private:
  std::string folder_;
  std::string path_;
  bool committed_ = false;
};

// Not a tokenizer's: the model's own configuration and weights, in whatever format, and dot files.
bool belongs_to_model(const std::string& name) {
  if (name == kHfConfigName || name.starts_with('.')) return true;
  static constexpr const char* kEndings[] = {
      ".safetensors", ".index.json", ".bin", ".pt", ".pth", ".gguf", ".h5", ".onnx", ".msgpack"};
  return std::any_of(std::begin(kEndings), std::end(kEndings),
                     [&](const char* ending) { return name.ends_with(ending); });
}

// What a tokenizer can be made of; beside it lie templates, special tokens and licences.
bool is_tokenizer(const std::string& name) {
  return name.starts_with("tokenizer") || name.starts_with("vocab") || name.ends_with(".model") ||
         name.ends_with(".tiktoken") || name == "tekken.json";
}

constexpr const char* kTokenizerAdvice =
    "--tokenizer wants the folder of the tokenizer that the data was prepared with.";

// The files of `folder`/`part` but the model's, relative to `folder`.
std::vector<std::string> list_files(const std::string& folder, const fs::path& part) {
  const fs::path place = part.empty() ? fs::path(folder) : folder / part;
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(place, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    std::error_code ignored;
    if (!entry->is_regular_file(ignored) || belongs_to_model(name)) continue;
    names.push_back(part / name);
  }
  if (error) {
    fail(place, fmt::format("cannot list the tokenizer's files: {}", error.message()),
         kTokenizerAdvice);
  }
  return names;
}

std::vector<std::string> tokenizer_files(const std::string& folder) {
  if (folder.empty()) return {};
  std::vector<std::string> names = list_files(folder, "");
  if (std::ranges::none_of(names, is_tokenizer)) {
    fail(folder, "has no tokenizer: no tokenizer.json, tokenizer.model, vocab.json or vocab.txt",
         kTokenizerAdvice);
  }
  std::error_code ignored;
  if (fs::is_directory(fs::path(folder) / kTemplatesFolder, ignored)) {
    std::ranges::move(list_files(folder, kTemplatesFolder), std::back_inserter(names));
  }
  return names;
}

void copy_files(const std::string& from, const std::vector<std::string>& names,
                const std::string& to) {
  for (const std::string& name : names) {
    const auto file = MappedFile::open(from + "/" + name, ErrorCategory::kCheckpoint);
    const fs::path target = fs::path(to) / name;
    make_folders(target.parent_path(), ErrorCategory::kCheckpoint);
    write_hf_file(target, file->bytes());
    sync_folder(target.parent_path(), ErrorCategory::kCheckpoint);
  }
}

// `folder` without an end that names the same one: "out/", "out/.".
std::string without_slashes(const std::string& folder) {
  fs::path path = folder;
  while (path.has_parent_path() && path != path.parent_path() &&
         (path.filename().empty() || path.filename() == ".")) {
    path = path.parent_path();
  }
  return path;
}

}  // namespace

void export_model(const std::string& folder, const DecoderConfig& config,
                  const ParameterSource& source, const ExportOptions& options) {
  // What can be refused is looked at before anything is made.
  const auto names = tokenizer_files(options.tokenizer_folder);
  json document = find_family(config.family).write(config);
  document.update(special_token_ids(options.model_config, options.tokenizer_folder));
  add_end_tokens(document, options.end_tokens);
  TemporaryFolder temporary(without_slashes(folder));
  copy_files(options.tokenizer_folder, names, temporary.path());
  if (!names.empty()) {
    finish_tokenizer(temporary.path(), options.end_tokens, options.chat_template);
  }
  const char* dtype = options.bfloat16 ? "bfloat16" : "float32";
  document["dtype"] = dtype;
  document["torch_dtype"] = dtype;  // the same for transformers before 4.56
  write_hf_json(temporary.path() + "/" + kHfConfigName, document);
  write_hf_weights(temporary.path(), weight_layouts(config).front(), source, options);
  temporary.commit();
}

}  // namespace packtrain
