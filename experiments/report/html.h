#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace longhaul {

std::string HtmlEscape(std::string_view text);

// One page: head, styles, `body`, and the few lines that sort tables. Nothing is fetched from
// anywhere.
std::string HtmlPage(std::string_view title, std::string_view body);

// A table of already escaped cells. Cells that look like numbers are set to the right.
std::string HtmlTable(const std::vector<std::string>& header,
                      const std::vector<std::vector<std::string>>& rows);

// A word with a colour: good, bad, open or plain.
enum class Tone { kGood, kBad, kOpen, kPlain };
std::string HtmlBadge(std::string_view text, Tone tone);

// A block that opens on click.
std::string HtmlDetails(std::string_view summary, std::string_view html);

// Rows as RFC 4180 text.
std::string Csv(const std::vector<std::vector<std::string>>& rows);

}  // namespace longhaul
