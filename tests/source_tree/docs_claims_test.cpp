// What the pages say about the sources: names in back quotes exist there, and nothing that the sources show, such as a
// count, the callers of a function, or what ran on a GPU, is repeated by hand.
//
// With sanitizers on, g++ 12 warns about std::regex's own code (GCC PR105562).
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#include <doctest/doctest.h>
#include <fnmatch.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <unordered_set>

#include "tests/source_tree/pages.h"

using namespace mtl;
using namespace mtl::test;

namespace {

/// Exceptions: names in back quotes that are not in the sources.
struct Foreign {
  std::regex names;
  const char* whose;
};
const Foreign kForeign[] = {
    {std::regex("fsdp_\\w+|\\w*SHARD\\w*|num_(machines|processes)|machine_rank|main_process_ip|[ct]p_size"),
     "keys of FSDP and Accelerate, of which docs/deepspeed-fsdp.md says what replaces them"},
    {std::regex("(pretrain_gpt|preprocess_data|tools/.*)\\.py"), "Megatron-LM's programs"},
    {std::regex("NODE_RANK|GPUS_PER_NODE|--optimizer-offload-fraction"), "Megatron-LM's variables, and a flag"},
    {std::regex("MPI_ABORT|ORTE_ERROR_LOG|(btl|oob|odls)_\\w+|--report-bindings"), "Open MPI's"},
    {std::regex("MaxRSS|oom_kill"), "Slurm's"},
    {std::regex("set_float32_matmul_precision|AVX512_CORE_BF16"), "PyTorch's, and oneDNN's"},
};
static_assert(std::size(kForeign) <= 10);

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

/// The files of the source tree, and the text of those that are neither prose nor data.
class Sources {
 public:
  Sources() {
    for (const char* folder : {"apps", "cmake", "docs", "kernels", "libcore", "man", "packaging", "share", "tests"}) {
      paths_.push_back(cat("../", folder));
      for (const auto& entry : fs::recursive_directory_iterator(cat("../", folder))) {
        paths_.push_back(entry.path().generic_string());
        if (is_read(entry.path())) text_ += read_file(entry.path());
      }
    }
    for (const char* file : {"../Makefile", "../CMakeLists.txt", "../CMakePresets.json"}) text_ += read_file(file);
    for (std::size_t at = 0, end = 0; at < text_.size(); at = end + 1) {
      const bool is_flag = text_.compare(at, 2, "--") == 0;
      end = is_flag ? at + 2 : at;
      while (end < text_.size() && (is_word(text_[end]) || (is_flag && text_[end] == '-'))) ++end;
      words_.insert(std::string_view(text_).substr(at, end - at));
    }
  }

  /// `word` is an identifier or a flag, such as "--save".
  bool has_word(const std::string& word) const { return words_.contains(word); }
  /// Returns true if `part` occurs, and not only as the end of longer names.
  bool has(const std::string& part) const { return find(part) != std::string::npos; }
  bool has_member(const std::string& scope, const std::string& member) const {
    if (has(cat(scope, "::", member))) return true;
    const std::string head = cat("struct ", scope, " {\n");
    for (std::size_t at = find(head); at != std::string::npos; at = find(head, at + 1))
      if (find(member, at) < text_.find("\n}", at)) return true;
    return false;
  }
  /// Returns the paths that end with /name, in which OP, NAME and * stand for any text.
  std::vector<std::string> paths(const std::string& name) const {
    static const std::regex any_text("\\b(OP|NAME)(?=[_.])"), slash("/$");
    const std::string end = "/" + std::regex_replace(std::regex_replace(name, slash, ""), any_text, "*");
    const bool is_pattern = end.find('*') != std::string::npos;
    std::vector<std::string> out;
    for (const std::string& path : paths_)
      if (is_pattern ? fnmatch(("*" + end).c_str(), path.c_str(), 0) == 0 : path.ends_with(end)) out.push_back(path);
    return out;
  }

 private:
  static bool is_read(const fs::path& path) {
    static const std::set<std::string> kinds = {".h",  ".cpp",   ".cu",  ".inc",  ".sh",     ".py",
                                                ".in", ".cmake", ".awk", ".json", ".sbatch", ".txt"};
    static const std::regex unread(
        "../(tests/(golden|fuzz/corpus|source_tree/docs_.*)|share/gpt2|tests/cli/docs_commands)[/.].*");
    return kinds.contains(path.extension()) && !std::regex_match(path.string(), unread);
  }
  std::size_t find(const std::string& part, std::size_t begin = 0) const {
    std::size_t at = text_.find(part, begin);
    while (at != std::string::npos && at > 0 && is_word(text_[at - 1])) at = text_.find(part, at + 1);
    return at;
  }

  std::vector<std::string> paths_;  // "../kernels/gemm.h"; folders, too
  std::string text_;
  std::unordered_set<std::string_view> words_;
};

const Sources& sources() {
  static const Sources all;
  return all;
}

/// Calls visit(match) for every match.
template <class Visit>
void for_each_match(const std::string& text, const std::regex& pattern, const Visit& visit) {
  for (std::sregex_iterator at(text.begin(), text.end(), pattern), end; at != end; ++at) visit(*at);
}

/// A kind of name in back quotes.
struct Kind {
  std::regex pattern;
  bool (*exists)(const std::smatch& name);
};
const Kind kKinds[] = {
    {std::regex(R"([\w.*~-]*/[\w.*/~-]*|[\w.*]+\.(h|cpp|cu|inc|py)\b)"),
     [](const std::smatch& file) {  // of the source tree, or one that it includes, such as nccl.h
       static const std::regex own(
           R"((apps|cli|cmake|docs|kernels|libcore|man|packaging|share|tests)/.*|.*\.(h|cpp|cu|inc|py))");
       const bool is_bare = file.str().find('/') == std::string::npos;
       return !std::regex_match(file.str(), own) || !sources().paths(file[0]).empty() ||
              (is_bare && sources().has(file[0]));
     }},
    {std::regex(R"((\w+)::(?!OP\b)(\w+))"),
     [](const std::smatch& name) { return sources().has_member(name[1], name[2]); }},
    {std::regex(R"((\w+)(<[^>]*>)?\()"),
     [](const std::smatch& name) {
       return sources().has(cat(name.str(1), "(")) || sources().has(cat(name.str(1), "<"));
     }},
    {std::regex(R"(--[a-z][\w-]*|\w+)"),
     [](const std::smatch& name) {
       static const std::regex code(R"(--.*|.*_.*|.*[a-z][A-Z].*)"), number("_\\d+$");  // iter_0000200
       return !std::regex_match(name.str(), code) || sources().has_word(name[0]) ||
              sources().has_word(std::regex_replace(name.str(), number, "_"));
     }},
};

/// Returns the names in `code` that must exist, and do not. Adds to `used` what names others.
std::vector<std::string> missing_names(std::string code, std::set<const Foreign*>& used) {
  std::vector<std::string> out;
  for (const Kind& kind : kKinds) {
    for_each_match(code, kind.pattern, [&](const std::smatch& name) {
      if (kind.exists(name)) return;
      const auto is_named = [&](const Foreign& row) { return std::regex_match(name.str(), row.names); };
      const Foreign* row = std::ranges::find_if(kForeign, is_named);
      if (row == std::end(kForeign))
        out.push_back(name[0]);
      else
        used.insert(row);
    });
    code = std::regex_replace(code, kind.pattern, " ");
  }
  return out;
}

}  // namespace

TEST_CASE("docs: names in back quotes exist") {
  int names = 0;
  std::set<const Foreign*> used;
  for (const std::string& page : pages()) {
    CAPTURE(page);
    for (const std::string& code : code_of(prose_of(page))) {
      CAPTURE(code);
      ++names;
      static const std::regex type("[A-Z][a-z]+");  // in manual pages, also words of English
      if (page.ends_with(".md") && std::regex_match(code, type)) CHECK(sources().has_word(code));
      CHECK(join(missing_names(code, used), ", ") == "");
    }
  }
  CHECK(names > 1000);
  CHECK(used.size() == std::size(kForeign));  // an exception that nothing needs can go
}

TEST_CASE("docs: a file that stands after a name has that name") {
  // `Saver::save` (`train/saver.cpp`), and (`IndexedDatasetWriter`), called in `prep/preprocess_outputs.cpp`
  static const std::regex pair(
      R"(`[^`]*?((?:\w+::)?\w+)[^\w`]*`(?: \(|\)?,? (?:called|read) in )`([\w/.]+\.(?:h|cpp|cu|inc|sh))`)");
  int pairs = 0;
  for (const std::string& page : pages()) {
    for_each_match(prose_of(page), pair, [&](const std::smatch& each) {
      const std::string file = each[2];
      std::string name = each[1];  // a definition is qualified, but a declaration is not
      if (!file.ends_with(".cpp")) name.erase(0, name.rfind(':') + 1);
      CAPTURE(page);
      CAPTURE(name);
      CAPTURE(file);
      ++pairs;
      const std::vector<std::string> paths = sources().paths(file);
      REQUIRE(paths.size() == 1);
      CHECK(std::regex_search(read_file(paths[0]), std::regex("\\b" + name + "\\b")));
    });
  }
  CHECK(pairs > 20);
}

TEST_CASE("docs: no page lists who calls or reads a name; `git grep NAME` does") {
  static const std::string code = "`[^`]+`", file = R"(`[\w/]+\.(?:h|cpp|cu|sh)`)", next = "(?:, and |, | and )";
  static const std::regex of_callees("\\b(?:called|included|named|read|used)\\b[^`.;|]*(?:" + code + next + "){2}" +
                                     code);
  static const std::regex of_callers("(?:" + file + next + "){2}" + file +
                                     "\\)? (?:call|include|know|name|read|use)\\b");
  for (const std::string& page : pages()) {
    CAPTURE(page);
    const std::string prose = prose_of(page);
    const auto fail = [](const std::smatch& list) { FAIL_CHECK(list.str()); };
    for_each_match(prose, of_callees, fail);
    for_each_match(prose, of_callers, fail);
  }
}

TEST_CASE("docs: no page counts what the sources contain") {
  static const std::regex count(R"(\b(two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|[1-9]\d) )"
                                R"(((?!(and|in|of|or|with|without) )[\w+-]+ ){0,2})"
                                "(callers|classes|commands|families|files|flags|formats|functions|kernels|layouts|"
                                "modules|operators|places|presets|"
                                R"(programs|rooms|schedules|scripts|tests|tools)\b)");
  for (const std::string& page : pages()) {
    CAPTURE(page);
    const std::string prose = std::regex_replace(prose_of(page), std::regex("`[^`]*`"), "`");
    for_each_match(prose, count, [](const std::smatch& found) { FAIL_CHECK(found.str()); });
  }
}

namespace {

/// Returns the text of a source file's comments, without those behind code.
std::string comments_in(const std::string& file) {
  std::string out;
  for (const std::string& line : split(read_file(file), '\n')) {
    const std::string_view text = trim(line);
    out += text.starts_with("//") ? cat(text.substr(std::min(text.find_first_not_of('/'), text.size())), " ") : ". ";
  }
  return out;
}

/// Returns the sentences that say what ran on a GPU, and what did not.
std::vector<std::string> claims_in(const std::string& text) {
  static const std::regex on_gpu("\\b(GPUs?|H200|sm_\\d+)\\b|emulat");
  static const std::regex claim(
      "\\b(ran|so far|yet|been measured|(has|have|was|were)( not| never)?( been)? (run|tested|tried))\\b");
  std::vector<std::string> out;
  std::size_t begin = 0;
  while (begin < text.size()) {
    const std::size_t end = std::min(text.find(". ", begin), text.size());
    std::string sentence = text.substr(begin, end - begin);
    if (std::regex_search(sentence, on_gpu) && std::regex_search(sentence, claim)) out.push_back(std::move(sentence));
    begin = end + 2;
  }
  return out;
}

}  // namespace

TEST_CASE("docs: what ran on a GPU is in docs/limits.md, and how fast in docs/benchmarks.md") {
  const std::string source = "../docs/limits.md", benchmarks = "../docs/benchmarks.md";
  std::string limits = prose_of(source);
  const std::size_t begin = limits.find("## Not measured"), end = limits.find("## ", begin + 1);
  CHECK(claims_in(limits.substr(begin, end - begin)).size() > 0);
  limits.erase(begin, end - begin);
  std::map<std::string, std::string> texts = {{source, limits},
                                              {"../tests/gpu/README.md", prose_of("../tests/gpu/README.md")}};
  for (const std::string& page : pages())
    if (page != benchmarks) texts.try_emplace(page, prose_of(page));
  for (const char* folder : {"../kernels", "../libcore", "../tests/gpu"}) {
    for (const auto& entry : fs::recursive_directory_iterator(folder))
      if (entry.is_regular_file()) texts.try_emplace(entry.path(), comments_in(entry.path()));
  }
  for (const auto& each : texts) {
    CAPTURE(each.first);
    for (const std::string& claim : claims_in(each.second)) {
      CAPTURE(claim);
      CHECK(claim.find("limits.md#not-measured") != std::string::npos);
    }
  }
}

TEST_CASE("docs: CONTRIBUTING shows every module, and README every program") {
  const std::string tree = read_file("../CONTRIBUTING.md"), programs = read_file("../README.md");
  for (const auto& entry : fs::directory_iterator("../libcore")) {
    CAPTURE(entry.path());
    CHECK(tree.find(cat("\n  ", entry.path().filename().string(), "/ ")) != std::string::npos);
  }
  for (const std::string& path : sources().paths("apps/mtl_*.cpp")) {
    const std::string name = replace_all(fs::path(path).stem().string(), "_", "-");
    CAPTURE(name);
    CHECK(programs.find(cat("\n| `", name, "` | ")) != std::string::npos);
  }
}
