#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

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

void copy_tokenizer(const std::string& from, const std::string& to) {
  std::error_code error;
  for (fs::directory_iterator entry(from, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    std::error_code ignored;
    if (!entry->is_regular_file(ignored) || belongs_to_model(name)) continue;
    const auto file = MappedFile::open(entry->path().string(), ErrorCategory::kCheckpoint);
    write_hf_file(to + "/" + name, file->bytes());
  }
  if (error) fail(from, fmt::format("cannot list the tokenizer's files: {}", error.message()));
}

}  // namespace

void export_model(const std::string& folder, const DecoderConfig& config,
                  const ParameterSource& source, const ExportOptions& options) {
  const Family& family = find_family(config.family);
  std::string target = folder;
  while (target.size() > 1 && target.back() == '/') target.pop_back();
  TemporaryFolder temporary(target);
  if (!options.tokenizer_folder.empty()) {
    copy_tokenizer(options.tokenizer_folder, temporary.path());
  }
  json document = family.write(config);
  document.update(special_token_ids(options.model_config, options.tokenizer_folder));
  const char* dtype = options.bfloat16 ? "bfloat16" : "float32";
  document["dtype"] = dtype;
  document["torch_dtype"] = dtype;  // the same for transformers before 4.56
  write_hf_json(temporary.path() + "/" + kHfConfigName, document);
  write_hf_weights(temporary.path(), weight_layouts(config).front(), source, options);
  temporary.commit();
}

}  // namespace packtrain
