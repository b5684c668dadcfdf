// Tables of texts: as aligned columns, as Markdown, and fields of CSV.
#pragma once

#include <string>
#include <vector>

namespace packtrain {

using TableRow = std::vector<std::string>;

// `rows`: the titles first, all of one size. Columns have equal widths, in characters of UTF-8.
std::string aligned_table(const std::vector<TableRow>& rows);
std::string markdown_table(const std::vector<TableRow>& rows);

// In quotes where the text has a comma or a quote (RFC 4180).
std::string csv_field(const std::string& text);

}  // namespace packtrain
