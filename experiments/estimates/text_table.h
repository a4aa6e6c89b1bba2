#pragma once

#include <string>
#include <vector>

namespace longhaul {

// A table for a terminal: columns as wide as their widest cell, numbers to the right.
class TextTable {
 public:
  explicit TextTable(std::vector<std::string> header) : rows_{std::move(header)} {}
  void Add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  std::string Text() const;  // ends with a newline

 private:
  std::vector<std::vector<std::string>> rows_;
};

// What was found, written once: TextOf writes it for a terminal, HtmlOf (report/html.h) for a page.
struct ReportTable {
  std::string title;
  std::vector<std::string> header;
  std::vector<std::vector<std::string>> rows;
  std::vector<std::string> notes = {};  // how to read it; a line each
};

// The title, the table, its notes; "" for a table without rows.
std::string TextOf(const ReportTable& table);

}  // namespace longhaul
