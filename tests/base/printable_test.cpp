// Untrusted text, made safe for terminals and XML documents.
#include "base/printable.h"

#include <doctest/doctest.h>

using namespace mtl;

TEST_CASE("printable text: is UTF-8 without control characters and noncharacters") {
  CHECK(printable_text("") == "");
  CHECK(printable_text("plain, \xC3\xA9, \xE2\x80\xA6, \xF0\x9F\x98\x80") ==
        "plain, \xC3\xA9, \xE2\x80\xA6, \xF0\x9F\x98\x80");
  CHECK(printable_text("a\x1B[31m\x07\x7F\tb\nc") == "a[31mbc");
  CHECK(printable_text(std::string_view("a\0b", 3)) == "ab");
  CHECK(printable_text("\xC2\x85\xC2\x9B\xC2\xA0") == "\xC2\xA0");  // drops C1 controls, keeps the no-break space
  CHECK(printable_text("a\u202Etxt.exe\u2066b\u2069\u2029") == "atxt.exeb\u2029");
  CHECK(printable_text("\xFF|\xC3") == "\xEF\xBF\xBD|\xEF\xBF\xBD");
  CHECK(printable_text("\xEF\xBF\xBE|\xEF\xBF\xBF|\xF0\x9F\xBF\xBF") == "\xEF\xBF\xBD|\xEF\xBF\xBD|\xEF\xBF\xBD");
  // A surrogate: each byte is invalid.
  CHECK(printable_text("\xED\xA0\x80") == "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");
  CHECK(printable_text("\xEF\xBF\xBD") == "\xEF\xBF\xBD");
}

TEST_CASE("printable messages keep their line breaks") {
  CHECK(printable_message("2 problems\n\tfirst\r\n  second\x1B") == "2 problems\n\tfirst\n  second");
}
