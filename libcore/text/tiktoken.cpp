#include "text/tiktoken.h"

#include <algorithm>
#include <unordered_map>

#include "base/error.h"
#include "base/files.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/utf8.h"
#include "text/bpe_encoder.h"

namespace mtl {

namespace {

constexpr std::int64_t kDefaultVocabSize = 1 << 17;  // Megatron's
constexpr std::int64_t kMaxRank = 1 << 22;
constexpr std::size_t kMaxTokenBytes = 1024;  // several times the longest in use; find_merges() is quadratic in it
constexpr const char* kRankFile = "/tokenizer.tiktoken";
constexpr const char* kRankConfig = "/tiktoken_config.json";
constexpr std::string_view kBase64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Decodes base64 (RFC 4648) with padding. Returns nothing for any other text.
std::optional<std::string> decode_base64(std::string_view text) {
  if (text.size() % 4 != 0) return {};
  std::string out;
  for (std::size_t at = 0; at < text.size(); at += 4) {
    bool is_last = at + 4 == text.size();
    std::size_t padding = !is_last ? 0 : text[at + 2] == '=' ? 2 : text[at + 3] == '=' ? 1 : 0;
    if (padding == 2 && text[at + 3] != '=') return {};
    std::uint32_t bits = 0;
    for (std::size_t i = 0; i < 4; ++i) {
      std::size_t value = i >= 4 - padding ? 0 : kBase64.find(text[at + i]);
      if (value == std::string_view::npos) return {};
      bits = bits << 6 | static_cast<std::uint32_t>(value);
    }
    for (std::size_t i = 0; i + padding < 3; ++i) out += static_cast<char>(bits >> (16 - 8 * i));
  }
  return out;
}

std::string encode_base64(std::string_view bytes) {
  std::string out;
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    std::uint32_t bits = 0;
    for (std::size_t i = 0; i < 3; ++i) bits = bits << 8 | (at + i < bytes.size() ? byte_of(bytes[at + i]) : 0u);
    for (std::size_t i = 0; i < 4; ++i) out += at + i > bytes.size() ? '=' : kBase64[bits >> (18 - 6 * i) & 63];
  }
  return out;
}

class RankReader {
 public:
  explicit RankReader(const std::string& path) : path_(path) {}

  void put(std::string_view base64, std::optional<std::int64_t> rank, const std::string& where) {
    if (!rank || *rank < 0 || *rank >= kMaxRank)
      fail(Exit::bad_data, path_, where, ": the rank is not an integer from 0 to ", kMaxRank - 1);
    auto bytes = decode_base64(base64);
    if (!bytes || bytes->empty()) fail(Exit::bad_data, path_, where, ": \"", base64, "\" is not a token in base64");
    if (bytes->size() > kMaxTokenBytes) {
      fail(Exit::bad_data, path_, where, ": the token with rank ", *rank, " has ", bytes->size(), " bytes; at most ",
           kMaxTokenBytes, " are supported");
    }
    std::size_t index = *rank;
    if (index >= ranks.size()) ranks.resize(index + 1);
    if (!ranks[index].empty()) fail(Exit::bad_data, path_, where, ": another token already has rank ", *rank);
    ranks[index] = std::move(*bytes);
  }

  void read_json(std::string_view text) {
    Json list = Json::parse(text);
    std::int64_t index = 0;
    for (const Json& item : list.as_array()) {
      std::string where = cat(": entry ", index);
      if (item.at("rank").as_int() != index)
        fail(Exit::bad_data, path_, where, " has rank ", item.at("rank").as_int(), "; ranks must be in order");
      put(item.at("token_bytes").as_string(), index++, where);
    }
  }

  void read_lines(std::string_view text) {
    std::int64_t number = 0;
    for (const std::string& raw : split(text, '\n')) {
      ++number;
      std::string_view line = trim(raw);
      if (line.empty()) continue;
      std::size_t blank = line.find(' ');
      if (blank == std::string_view::npos)
        fail(Exit::bad_data, path_, ":", number, ": expected a token in base64, a space and its rank");
      put(line.substr(0, blank), parse_int(line.substr(blank + 1)), cat(":", number));
    }
  }

  std::vector<std::string> ranks;

 private:
  const std::string& path_;
};

using Ids = std::unordered_map<std::string_view, std::uint32_t>;

/// For every way to split a token into two tokens, returns a merge with the token's rank.
std::vector<BpeModel::MergeRule> find_merges(const std::vector<std::string>& ranks, const Ids& ids) {
  std::vector<BpeModel::MergeRule> merges;
  for (const std::string& token : ranks) {
    if (token.empty()) continue;
    std::string_view bytes = token;
    std::uint32_t merged = ids.at(bytes);
    for (std::size_t cut = 1; cut < bytes.size(); ++cut) {
      auto left = ids.find(bytes.substr(0, cut)), right = ids.find(bytes.substr(cut));
      if (left != ids.end() && right != ids.end())
        merges.push_back({.left = left->second, .right = right->second, .rank = merged, .merged = merged});
    }
  }
  return merges;
}

BpeModel make_model(const std::vector<std::string>& ranks, std::int64_t first_id, const std::string& path) {
  Ids ids;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    if (ranks[rank].empty()) continue;
    auto id = static_cast<std::uint32_t>(first_id + static_cast<std::int64_t>(rank));
    if (const auto [first, is_new] = ids.emplace(ranks[rank], id); !is_new)
      fail(Exit::bad_data, path, ": the token ", encode_base64(ranks[rank]), " has two ranks, ",
           first->second - first_id, " and ", rank);
  }
  std::array<std::uint32_t, 256> byte_tokens;
  for (std::size_t byte = 0; byte < 256; ++byte) {
    char value = static_cast<char>(byte);
    auto found = ids.find({&value, 1});
    if (found == ids.end()) {
      fail(Exit::bad_data, path, " has no token for byte ", byte, " among the first ", ranks.size(),
           " ranks; use a larger --vocab-size, which may include this token");
    }
    byte_tokens[byte] = found->second;
  }
  BpeModel model(byte_tokens, find_merges(ranks, ids));
  for (const auto& [bytes, id] : ids) model.add_whole_pretoken(std::string(bytes), static_cast<std::int32_t>(id));
  return model;
}

/// Returns the name of a special token beyond the named ones.
std::string unnamed_special(std::int64_t id) { return cat("<SPECIAL_", id, ">"); }

SplitRules rules_of(const std::string& pattern) {
  using enum SplitRules::Contractions;
  if (pattern == "v1") return {.contractions = none, .cased = false, .three_digits = false, .with_slashes = false};
  if (pattern == "v2") return {.contractions = none, .cased = true, .three_digits = false, .with_slashes = true};
  fail_at(Exit::usage, cat("--tiktoken-pattern ", pattern), "is unknown; choose v1 or v2");
}

/// Returns the ranks that fit into the vocabulary size.
std::vector<std::string> ranks_in_use(std::vector<std::string> ranks, const std::string& path,
                                      const TokenizerOptions& options) {
  std::int64_t special = options.tiktoken.num_special_tokens;
  std::int64_t available = std::ssize(ranks) + special;
  std::int64_t size = options.vocab_size.value_or(std::min(kDefaultVocabSize, available));
  if (size > available) {
    fail_at(Exit::usage, cat("--vocab-size ", size), path, " has ", ranks.size(), " tokens, ", available, " with the ",
            special, " special tokens; use --vocab-size ", available, " or less");
  }
  if (size <= special)
    fail_at(Exit::usage, cat("--vocab-size ", size), "must be more than --tiktoken-num-special-tokens ", special);
  ranks.resize(size - special);
  return ranks;
}

}  // namespace

std::vector<std::string> parse_tiktoken_ranks(std::string_view text, const std::string& path) {
  refuse_other_encoding(path, text);
  RankReader reader(path);
  std::string_view start = trim(text.substr(0, 100));
  const bool is_json = starts_with(start, "[") || starts_with(start, "{");
  with_path(
      path, [&] { is_json ? reader.read_json(text) : reader.read_lines(text); }, " is not a valid list of tokens: ");
  if (reader.ranks.empty()) fail(Exit::bad_data, path, " contains no tokens");
  return std::move(reader.ranks);
}

void check_tiktoken_options(const TiktokenOptions& options) {
  rules_of(options.pattern);
  std::int64_t count = options.num_special_tokens;
  const std::string flag = cat("--tiktoken-num-special-tokens ", count), names = "--tiktoken-special-tokens";
  if (count < 0 || count >= kMaxRank) fail_at(Exit::usage, flag, "must be from 0 to ", kMaxRank - 1);
  if (count == 0) return;
  auto named = std::ssize(options.special_tokens);
  if (named > count) {
    fail_at(Exit::usage, flag, "must be at least ", named, ", the number of --tiktoken-special-tokens");
  }
  auto occurs = [&](const std::string& name) { return std::ranges::count(options.special_tokens, name); };
  for (const char* name : {"<unk>", "<s>", "</s>"}) {
    if (occurs(name) == 0) fail_at(Exit::usage, names, "must include ", name);
  }
  for (const std::string& name : options.special_tokens) {
    if (name.empty() || occurs(name) > 1)
      fail_at(Exit::usage, names, "has \"", name, name.empty() ? "\", an empty name" : "\" twice");
    for (std::int64_t id = named; id < count && starts_with(name, "<SPECIAL_"); ++id) {
      if (name == unnamed_special(id))
        fail_at(Exit::usage, names, "has ", name, ", the name of id ", id, "; choose another name");
    }
  }
}

TikTokenizer::TikTokenizer(const TokenizerOptions& options)
    : TikTokenizer(parse_tiktoken_ranks(read_file(options.tokenizer_model), options.tokenizer_model),
                   options.tokenizer_model, options) {}

TikTokenizer::TikTokenizer(std::vector<std::string> ranks, const std::string& path, const TokenizerOptions& options)
    : path_(path),
      options_((check_tiktoken_options(options.tiktoken), options.tiktoken)),
      ranks_(ranks_in_use(std::move(ranks), path, options)),
      split_{rules_of(options_.pattern)},
      model_(make_model(ranks_, options_.num_special_tokens, path)) {
  std::vector<AddedToken> special;
  for (std::int64_t id = 0; id < options_.num_special_tokens; ++id) {
    std::size_t index = id;
    std::string name = index < options_.special_tokens.size() ? options_.special_tokens[index] : unnamed_special(id);
    if (name == "</s>") eod_ = static_cast<std::int32_t>(id);
    bytes_.add(name);
    special.push_back({.content = std::move(name), .id = static_cast<std::int32_t>(id)});
  }
  for (const std::string& token : ranks_) bytes_.add(token);
  if (options.parse_special_tokens) special_ = TokenFinder(std::move(special));
  std::string all = config_text();
  for (const std::string& token : ranks_) all += encode_base64(token) + "\n";
  hash_ = hash_bytes(all.data(), all.size());
}

std::unique_ptr<Encoder> TikTokenizer::make_encoder(EncoderMemory memory) const {
  auto plain = make_bpe_encoder(model_, memory, make_splitter(split_));
  if (special_.empty()) return plain;
  return std::make_unique<AddedTokenEncoder>(std::move(plain), special_);
}

std::int32_t TikTokenizer::eod() const {
  if (eod_ < 0) {
    fail(Exit::bad_data, path_,
         " has no end-of-document token, because --tiktoken-num-special-tokens is 0; leave that ",
         "flag out, or choose a larger number");
  }
  return eod_;
}

std::int32_t TikTokenizer::pad() const {
  const auto& special = options_.special_tokens;
  const auto at = std::ranges::find(special, "<pad>") - special.begin();
  const bool is_used = at < std::min(std::ssize(special), options_.num_special_tokens);
  return is_used ? static_cast<std::int32_t>(at) : -1;
}

std::string TikTokenizer::config_text() const {
  const std::vector<std::string>& special = options_.special_tokens;
  return Json::object({{"pattern", options_.pattern},
                       {"vocab_size", bytes_.size()},
                       {"num_special_tokens", options_.num_special_tokens},
                       {"special_tokens", Json::Array(special.begin(), special.end())}})
      .dump(2);
}

void TikTokenizer::save(const std::string& folder) const {
  std::string lines;
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    if (!ranks_[rank].empty()) lines += cat(encode_base64(ranks_[rank]), " ", rank, "\n");
  }
  write_file_atomic(folder + kRankFile, lines);
  write_file_atomic(folder + kRankConfig, config_text() + "\n");
}

std::optional<TokenizerOptions> TikTokenizer::find(const std::string& folder) {
  if (!file_exists(folder + kRankFile) || !file_exists(folder + kRankConfig)) return {};
  Json config = Json::read(folder + kRankConfig);
  TokenizerOptions found;
  found.type = "TikTokenizer";
  found.tokenizer_model = folder + kRankFile;
  found.vocab_size = config.at("vocab_size").as_int();
  found.tiktoken.pattern = config.at("pattern").as_string();
  found.tiktoken.num_special_tokens = config.at("num_special_tokens").as_int();
  found.tiktoken.special_tokens.clear();
  for (const Json& token : config.at("special_tokens").as_array())
    found.tiktoken.special_tokens.push_back(token.as_string());
  return found;
}

}  // namespace mtl
