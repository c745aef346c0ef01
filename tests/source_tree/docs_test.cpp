// Documentation: every link leads to an existing file and heading, excerpts and messages are those of the source, and
// every fault has a test.
#include <doctest/doctest.h>

#include <algorithm>
#include <regex>
#include <set>

#include "tests/source_tree/pages.h"

using namespace mtl;
using namespace mtl::test;

namespace {

/// Returns the anchors for a page's headings in GitHub's form: lower case, hyphens for blanks, no punctuation.
std::set<std::string> anchors_of(const std::string& page) {
  std::set<std::string> out;
  for (const std::string& line : split(read_file(page), '\n')) {
    const std::size_t title = line.find_first_not_of('#');
    if (line.empty() || line[0] != '#' || title == std::string::npos) continue;
    std::string anchor;
    for (char c : line.substr(title + 1)) {
      if (std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_')
        anchor += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      if (c == ' ') anchor += '-';
    }
    out.insert(anchor);
  }
  return out;
}

/// Returns the first group from every match in a page.
std::vector<std::string> matches(const std::string& page, const std::regex& pattern) {
  const std::string text = read_file(page);
  std::vector<std::string> out;
  for (std::sregex_iterator at(text.begin(), text.end(), pattern), end; at != end; ++at) out.push_back((*at)[1]);
  return out;
}

/// Joins literals that continue on the next line.
std::string joined_literals(std::string_view source) {
  std::string out;
  for (std::size_t at = 0; at < source.size(); ++at) {
    if (source[at] == '"') {
      const std::size_t next = source.find_first_not_of(" \n", at + 1);
      if (next != std::string_view::npos && source[next] == '"' &&
          source.substr(at, next - at).find('\n') != std::string_view::npos) {
        at = next;
        continue;
      }
    }
    out += source[at];
  }
  return out;
}

}  // namespace

TEST_CASE("docs: links lead to files and headings that exist") {
  int links = 0;
  std::vector<std::string> with_links = pages();
  with_links.push_back("../CHANGELOG.md");
  for (const std::string& page : with_links) {
    for (const std::string& link : matches(page, std::regex(R"(\]\(([^)\s]+)\))"))) {
      if (link.starts_with("http")) continue;
      CAPTURE(page);
      CAPTURE(link);
      ++links;
      const std::size_t hash = std::min(link.find('#'), link.size());
      const std::string target = hash == 0 ? page : (fs::path(page).parent_path() / link.substr(0, hash)).string();
      REQUIRE(fs::exists(target));
      if (hash < link.size()) CHECK(anchors_of(target).contains(link.substr(hash + 1)));
    }
  }
  CHECK(links > 20);
}

TEST_CASE("docs: excerpts in docs/reading.md stand in the file that the link before them leads to") {
  std::string file;
  std::vector<std::string> source;  // its lines, without indentation
  std::size_t at = 0;               // in source, after the excerpt's last line
  bool in_excerpt = false;
  int found = 0;
  static const std::regex kLink(R"(\[[^\]]+\]\(\.\./([^)]+)\))");
  for (const std::string& line : split(read_file("../docs/reading.md"), '\n')) {
    std::smatch link;
    if (std::regex_match(line, link, kLink)) {  // a link alone on its line
      file = link[1];
      source.clear();
      for (const std::string& each : split(read_file("../" + file), '\n')) source.emplace_back(trim(each));
    }
    if (line.starts_with("```")) {
      in_excerpt = line == "```cpp";
      at = 0;
      continue;
    }
    const std::string text(trim(line));
    if (!in_excerpt || text == "...") continue;
    CAPTURE(file);
    CAPTURE(text);
    const auto place = std::find(source.begin() + static_cast<std::ptrdiff_t>(at), source.end(), text);
    CHECK(place != source.end());
    if (place == source.end()) continue;
    at = static_cast<std::size_t>(place - source.begin()) + 1;
    ++found;
  }
  CHECK(found > 30);
}

TEST_CASE("docs: the messages in docs/run-ended.md stand in the source") {
  std::string source;
  for (const char* folder : {"../apps", "../libcore"}) {
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
      if (entry.path().extension() == ".cpp") source += read_file(entry.path());
    }
  }
  source = joined_literals(source);
  bool in_message = false;
  int fragments = 0;
  for (const std::string& line : split(read_file("../docs/run-ended.md"), '\n')) {
    if (line.starts_with("```")) {
      in_message = line == "```text";
      continue;
    }
    if (!in_message) continue;
    // <...> stands for what the program inserts.
    for (const std::string& fragment : split(std::regex_replace(line, std::regex("<[^>]*>"), "\n"), '\n')) {
      if (trim(fragment).size() < 6) continue;
      CAPTURE(line);
      CAPTURE(fragment);
      ++fragments;
      CHECK(source.find(fragment) != std::string::npos);
    }
  }
  CHECK(fragments > 25);
}

TEST_CASE("docs: every row of the fault tables names tests") {
  static const std::regex test(R"(\|[^|]*`[a-z_]+/[a-z_/.]+`[^|]*\|$)");
  int rows = 0;
  for (const std::string& line : split(read_file("../docs/faults.md"), '\n')) {
    if (!line.starts_with("| ") || line.starts_with("| fault")) continue;
    CAPTURE(line);
    ++rows;
    CHECK(std::regex_search(line, test));
  }
  CHECK(rows > 10);
}
