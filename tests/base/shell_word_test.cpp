// Words of shell commands: a shell reads them back.
#include "base/shell_word.h"

#include <doctest/doctest.h>

#include <array>
#include <cstdio>
#include <memory>

using namespace mtl;

TEST_CASE("shell words: a shell reads every word back, and runs nothing in it") {
  for (const std::string word :
       {"plain-1.0/a,b=c", "", "two words", "$(echo run)", "it's", "`x`", "a\nb", "*", "~", "\\"}) {
    CAPTURE(word);
    const std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen(("printf %s " + shell_word(word)).c_str(), "r"), ::pclose);
    std::array<char, 100> out{};
    const std::size_t size = std::fread(out.data(), 1, out.size(), pipe.get());
    CHECK(std::string(out.data(), size) == word);
  }
  CHECK(shell_word("plain-1.0/a,b=c") == "plain-1.0/a,b=c");
}
