#include "framework/data/pretokenized_line.h"
#include "framework/data/text_lines.h"
#include "tests/fuzz/input_file.h"
#include "tests/fuzz/targets.h"

namespace packtrain::fuzz {

void read_jsonl(std::string_view input) {
  constexpr std::int64_t kVocabSize = 100;
  LineReader first(input);
  const auto begin = first.next();
  const PretokenizedForm form = form_of_line(begin ? begin->text : "");
  PretokenizedLine parser(kVocabSize, form);
  LineReader lines(input);
  std::size_t end = 0;
  while (const auto line = lines.next()) {
    require(line->begin >= end && input.substr(line->begin, line->text.size()) == line->text,
            "a line is where it says");
    end = line->begin + line->text.size();
    if (line->is_blank()) continue;
    try {
      parser.parse(line->text);
    } catch (const LineFault&) {
      continue;
    }
    for (const PretokenizedExample& example : parser.examples()) {
      require(!example.input_ids().empty(), "an example has a token");
      require(example.input_ids().size() == example.loss_mask().size(), "every token has a mask");
      for (const std::int32_t id : example.input_ids()) {
        require(id >= 0 && id < kVocabSize, "ids are in the vocabulary");
      }
    }
    require(parser.margin().has_value() == form.has_margins, "groups have margins or none has");
  }
  require(end <= input.size() && input.find('\n', end + 1) == input.npos, "no line is left out");
}

}  // namespace packtrain::fuzz
