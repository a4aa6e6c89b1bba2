#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "experiments/estimates/table.h"

namespace longhaul {

std::string HtmlEscape(std::string_view text);

// One page: head, styles, `body`, and the few lines that sort tables. Nothing is fetched from
// anywhere.
std::string HtmlPage(std::string_view title, std::string_view body);

// A table of already escaped cells. Cells that look like numbers are set to the right.
std::string HtmlTable(const std::vector<std::string>& header,
                      const std::vector<std::vector<std::string>>& rows);

// The same table as TextOf writes: an interval stands below its value, and letters of formulae in
// title, heads and notes are set as such ("ln eta", "q_f"); a line's end in a head is one on the
// page. "" for a table without rows. `heading`: the title's element.
std::string HtmlOf(const Table& table, std::string_view heading = "h3");

// Its rows alone; one cell.
std::string HtmlGrid(const Table& table);
std::string HtmlOf(const Cell& cell);

// A word in a coloured frame.
std::string HtmlBadge(std::string_view text, Tone tone);

// A block that opens on click.
std::string HtmlDetails(std::string_view summary, std::string_view html);

}  // namespace longhaul
