#include "framework/data/pretokenized.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <cstring>
#include <limits>
#include <optional>
#include <span>
#include <string_view>

#include "framework/data/store_writer.h"
#include "framework/support/error.h"
#include "framework/support/file.h"

namespace packtrain {
namespace {

namespace dom = simdjson::dom;

constexpr std::int64_t kIgnored = -100;
constexpr std::size_t kMaxLineBytes = std::size_t{1} << 31U;  // simdjson's indices are 32 bits

// Reads one line after another of one file.
class LineParser {
 public:
  LineParser(std::string path, std::int64_t vocab_size)
      : path_(std::move(path)), vocab_size_(vocab_size) {}

  // Fills input_ids() and loss_mask(); false when the line is blank.
  bool parse(std::string_view line);

  std::span<const std::int32_t> input_ids() const { return input_ids_; }
  std::span<const std::uint8_t> loss_mask() const { return loss_mask_; }

 private:
  [[noreturn]] void fail(const std::string& fault) const {
    throw Error(ErrorCategory::kData, fmt::format("{}:{}: {}", path_, line_number_, fault));
  }
  void find_columns(std::string_view line);
  void take(std::optional<dom::array>& column, const dom::key_value_pair& field) const;
  std::int64_t integer(const dom::element& element, const char* column, std::size_t index) const;
  void read_ids();
  void read_labels();

  std::string path_;
  std::int64_t vocab_size_;
  std::int64_t line_number_ = 0;
  dom::parser parser_;
  std::vector<char> padded_;  // simdjson reads a little past the end of its text
  std::optional<dom::array> id_column_;
  std::optional<dom::array> label_column_;
  std::vector<std::int32_t> input_ids_;
  std::vector<std::uint8_t> loss_mask_;
};

bool LineParser::parse(std::string_view line) {
  ++line_number_;
  if (line.find_first_not_of(" \t\r") == std::string_view::npos) return false;
  if (line.size() > kMaxLineBytes) {
    fail(fmt::format("the line has {} bytes, wanted at most {}", line.size(), kMaxLineBytes));
  }
  find_columns(line);
  if (!id_column_) fail("lacks the key 'input_ids'");
  read_ids();
  if (label_column_) {
    read_labels();
  } else {
    loss_mask_.assign(input_ids_.size(), 1);
  }
  return true;
}

void LineParser::find_columns(std::string_view line) {
  padded_.resize(line.size() + simdjson::SIMDJSON_PADDING);
  std::memcpy(padded_.data(), line.data(), line.size());
  dom::element document;
  const auto error =
      parser_.parse(padded_.data(), line.size(), /*realloc_if_needed=*/false).get(document);
  if (error) fail(fmt::format("is no valid JSON: {}", simdjson::error_message(error)));
  dom::object object;
  if (document.get(object)) fail("is no JSON object");
  id_column_.reset();
  label_column_.reset();
  for (const dom::key_value_pair field : object) {
    if (field.key == "input_ids") take(id_column_, field);
    if (field.key == "labels") take(label_column_, field);
  }
}

void LineParser::take(std::optional<dom::array>& column, const dom::key_value_pair& field) const {
  dom::array array;
  if (column) fail(fmt::format("has the key '{}' twice", field.key));
  if (field.value.get(array)) {
    fail(fmt::format("'{}' is {:.80}, wanted a list of ids", field.key,
                     simdjson::to_string(field.value)));
  }
  column = array;
}

std::int64_t LineParser::integer(const dom::element& element, const char* column,
                                 std::size_t index) const {
  std::int64_t value = 0;
  if (element.get(value)) {
    fail(fmt::format("{}[{}] is {:.80}, wanted an integer", column, index,
                     simdjson::to_string(element)));
  }
  return value;
}

void LineParser::read_ids() {
  input_ids_.clear();
  for (const dom::element element : *id_column_) {
    const std::int64_t id = integer(element, "input_ids", input_ids_.size());
    if (id < 0 || id >= vocab_size_) {
      fail(
          fmt::format("input_ids[{}] is {}, wanted 0..{}", input_ids_.size(), id, vocab_size_ - 1));
    }
    input_ids_.push_back(static_cast<std::int32_t>(id));
  }
  if (input_ids_.empty()) fail("'input_ids' is empty, wanted at least one id");
}

void LineParser::read_labels() {
  loss_mask_.clear();
  for (const dom::element element : *label_column_) {
    const std::size_t t = loss_mask_.size();
    const std::int64_t label = integer(element, "labels", t);
    if (t >= input_ids_.size()) {
      fail(fmt::format("'labels' is longer than 'input_ids', which has {}", input_ids_.size()));
    }
    if (label != kIgnored && label != input_ids_[t]) {
      fail(fmt::format("labels[{}] is {}, wanted its id {} or {} (labels are not shifted)", t,
                       label, input_ids_[t], kIgnored));
    }
    loss_mask_.push_back(label == kIgnored ? 0 : 1);
  }
  if (loss_mask_.size() != input_ids_.size()) {
    fail(fmt::format("'labels' has {} entries, wanted {} as 'input_ids' has", loss_mask_.size(),
                     input_ids_.size()));
  }
}

void add_file(const std::string& path, std::int64_t vocab_size, std::int16_t source,
              StoreWriter& writer) {
  const auto file = MappedFile::open(path, ErrorCategory::kData);
  std::string_view text(reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size());
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  LineParser parser(path, vocab_size);
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    if (parser.parse(text.substr(0, end))) {
      writer.add(parser.input_ids(), parser.loss_mask(), source);
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

}  // namespace

StoreInfo prepare_pretokenized(const std::vector<std::string>& files, std::int64_t vocab_size,
                               const std::string& out, bool overwrite) {
  constexpr std::size_t kMaxFiles = std::numeric_limits<std::int16_t>::max();
  if (files.size() > kMaxFiles) {
    throw Error(ErrorCategory::kData,
                fmt::format("got {} files, wanted at most {}", files.size(), kMaxFiles),
                "Concatenate some of them.");
  }
  StoreInfo info;
  info.vocab_size = vocab_size;
  info.sources = files;
  const auto writer = StoreWriter::create(out, info, overwrite);
  for (std::size_t i = 0; i < files.size(); ++i) {
    add_file(files[i], vocab_size, static_cast<std::int16_t>(i), *writer);
  }
  return writer->finish();
}

}  // namespace packtrain
