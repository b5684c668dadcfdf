#include "framework/data/pretokenized.h"

#include <fmt/format.h>

#include <limits>
#include <string_view>

#include "framework/core/error.h"
#include "framework/core/mapped_file.h"
#include "framework/data/pretokenized_line.h"
#include "framework/data/store_writer.h"
#include "framework/data/text_lines.h"

namespace packtrain {
namespace {

void add_file(const std::string& path, std::int16_t source, PretokenizedLine& parser,
              StoreWriter& writer, BadLines& bad_lines) {
  const auto file = MappedFile::open(path, ErrorCategory::kData);
  LineReader lines({reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size()});
  while (const auto line = lines.next()) {
    if (line->is_blank()) continue;
    bad_lines.count_line();
    try {
      parser.parse(line->text);
    } catch (const LineFault& fault) {
      bad_lines.skip(path, *line, fault.what());
      continue;
    }
    writer.add(parser.input_ids(), parser.loss_mask(), source);
  }
  file->check_unchanged();
}

}  // namespace

StoreInfo prepare_pretokenized(const std::vector<std::string>& files, std::int64_t vocab_size,
                               const std::string& out, bool overwrite,
                               const BadLinePolicy& policy) {
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
  BadLines bad_lines(policy, out + "/" + kBadLinesName);
  PretokenizedLine parser(vocab_size);
  for (std::size_t i = 0; i < files.size(); ++i) {
    add_file(files[i], static_cast<std::int16_t>(i), parser, *writer, bad_lines);
  }
  bad_lines.finish();
  return writer->finish(bad_lines.num_bad());
}

}  // namespace packtrain
