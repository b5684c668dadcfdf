#include "framework/data/pretokenized.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "framework/core/error.h"
#include "framework/core/mapped_file.h"
#include "framework/data/group_format.h"
#include "framework/data/pretokenized_line.h"
#include "framework/data/store_writer.h"
#include "framework/data/text_lines.h"

namespace packtrain {
namespace {

std::string_view text_of(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

// Throws Error(kData) for a file of another kind, by its first bytes.
void check_is_text(const std::string& path, std::string_view text) {
  constexpr std::array<std::pair<std::string_view, const char*>, 6> kKinds{
      {{"\x1f\x8b", "compressed by gzip"},
       {"BZh", "compressed by bzip2"},
       {"\xfd\x37zXZ", "compressed by xz"},
       {"\x28\xb5\x2f\xfd", "compressed by zstd"},
       {"PAR1", "a Parquet table"},
       {"ARROW1", "an Arrow table"}}};
  for (const auto& [magic, kind] : kKinds) {
    if (!text.starts_with(magic)) continue;
    throw Error(ErrorCategory::kData, fmt::format("{}: is {}, wanted JSONL", path, kind),
                "Decompress or convert it first: --pretokenized reads plain JSONL.");
  }
}

void add_line(const PretokenizedLine& line, const PretokenizedForm& form, std::int16_t source,
              StoreWriter& writer) {
  std::vector<GroupMember> members;
  for (const PretokenizedExample& example : line.examples()) {
    ExampleToWrite written{example.input_ids(), example.loss_mask(), source};
    for (std::size_t c = 0; c < form.token_columns.size(); ++c) {
      written.token_columns.push_back(example.column(c));
    }
    members.push_back({std::move(written)});
  }
  if (!form.kind) return writer.add(members.front().example);
  for (std::size_t m = 0; m < members.size(); ++m) members[m].role = line.role(m);
  writer.add_group(members, line.margin());
}

// A line without labels among others that have some is rather a mistake, and its prompt would be
// learned. `has_labels`: of the file's first example.
void check_labels(const PretokenizedLine& line, std::optional<bool>& has_labels) {
  const bool found = line.examples().front().has_labels();
  if (found == has_labels.value_or(found)) {
    has_labels = found;
    return;
  }
  throw LineFault(
      found ? "has labels or a mask, unlike the file's first line, of which every token is learned "
              "(wanted them in all lines of a file, or in none)"
            : "has neither labels nor a mask, unlike the file's first line: every token would be "
              "learned (wanted them in all lines of a file, or in none)");
}

void add_file(const std::string& path, std::int16_t source, const PretokenizedForm& form,
              PretokenizedLine& parser, StoreWriter& writer, BadLines& bad_lines) {
  const auto file = MappedFile::open(path, ErrorCategory::kData);
  check_is_text(path, text_of(*file));
  LineReader lines(text_of(*file));
  std::optional<bool> has_labels;
  while (const auto line = lines.next()) {
    if (line->is_blank()) continue;
    bad_lines.count_line();
    try {
      parser.parse(line->text);
      check_labels(parser, has_labels);
    } catch (const LineFault& fault) {
      bad_lines.skip(path, *line, fault.what());
      continue;
    }
    add_line(parser, form, source, writer);
  }
  file->check_unchanged();
}

// The form of the first line that is not blank.
PretokenizedForm form_of_files(const std::vector<std::string>& files) {
  for (const std::string& path : files) {
    const auto file = MappedFile::open(path, ErrorCategory::kData);
    check_is_text(path, text_of(*file));
    LineReader lines(text_of(*file));
    while (const auto line = lines.next()) {
      if (!line->is_blank()) return form_of_line(line->text);
    }
  }
  return {};
}

void check_column_names(const std::vector<std::string>& names) {
  for (std::size_t c = 0; c < names.size(); ++c) {
    const auto earlier = std::span(names).first(c);
    const bool is_twice = std::ranges::find(earlier, names[c]) != earlier.end();
    if (is_column_name(names[c]) && !is_twice && names.size() <= kMaxTokenColumns) continue;
    throw Error(ErrorCategory::kConfig,
                fmt::format("--token-column {}: wanted at most {} different names of lower-case "
                            "letters, digits and underscores",
                            names[c], kMaxTokenColumns));
  }
}

}  // namespace

StoreInfo prepare_pretokenized(const std::vector<std::string>& files, std::int64_t vocab_size,
                               const std::string& out, bool overwrite, const BadLinePolicy& policy,
                               const std::vector<std::string>& token_columns) {
  constexpr std::size_t kMaxFiles = std::numeric_limits<std::int16_t>::max();
  if (files.size() > kMaxFiles) {
    throw Error(ErrorCategory::kData,
                fmt::format("got {} files, wanted at most {}", files.size(), kMaxFiles),
                "Concatenate some of them.");
  }
  check_column_names(token_columns);
  PretokenizedForm form = form_of_files(files);
  form.token_columns = token_columns;
  StoreInfo info;
  info.vocab_size = vocab_size;
  info.sources = files;
  info.token_columns = token_columns;
  if (form.kind) info.groups = GroupInfo{*form.kind, 0, form.has_margins};
  const auto writer = StoreWriter::create(out, info, overwrite);
  BadLines bad_lines(policy, out + "/" + kBadLinesName);
  PretokenizedLine parser(vocab_size, form);
  for (std::size_t i = 0; i < files.size(); ++i) {
    add_file(files[i], static_cast<std::int16_t>(i), form, parser, *writer, bad_lines);
  }
  bad_lines.finish();
  return writer->finish(bad_lines.num_bad());
}

}  // namespace packtrain
