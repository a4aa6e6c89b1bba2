#pragma once

#include <string>

namespace longhaul {

// Holds `text` against tests/golden/tables/NAME: words to the letter; numbers to one unit of their
// last digit or 1e-5 of their size, whichever is more (libm's last bits are a machine's own); hex
// strings of eight digits and more are not compared. With LONGHAUL_WRITE_GOLDEN in the environment
// it writes the file instead, and fails so that nobody takes that for a test.
void ExpectGolden(const std::string& name, const std::string& text);

}  // namespace longhaul
