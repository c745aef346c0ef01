#include "eval/token_source.h"

#include <algorithm>

#include "base/error.h"
#include "data/indexed_dataset.h"
#include "text/decompress.h"
#include "text/json_lines.h"
#include "text/other_formats.h"

namespace mtl {

namespace {

class IndexedTokens : public TokenSource {
 public:
  explicit IndexedTokens(const std::string& path) : data_(path) {}

  bool next(std::vector<std::int32_t>& ids) override {
    ids.clear();
    if (sequence_ == data_.sequences()) return false;
    std::int64_t length = data_.lengths()[sequence_];
    ids.resize(std::min(length - offset_, kMaxTokens));
    data_.read(sequence_, offset_, ids);
    offset_ += std::ssize(ids);
    if (offset_ == length) ++sequence_, offset_ = 0;
    return true;
  }
  std::optional<std::int64_t> total() const override { return data_.tokens(); }

 private:
  static constexpr std::int64_t kMaxTokens = 1 << 20;
  IndexedDataset data_;
  std::int64_t sequence_ = 0, offset_ = 0;
};

class TextTokens : public TokenSource {
 public:
  TextTokens(std::vector<std::string> paths, TextFormat format, std::string key, const Tokenizer& tokenizer)
      : paths_(std::move(paths)),
        format_(format),
        key_(std::move(key)),
        extractor_({key_}),
        encoder_(tokenizer.make_encoder()),
        eod_(tokenizer.eod()) {}

  bool next(std::vector<std::int32_t>& ids) override {
    ids.clear();
    if (lines_) {
      if (auto batch = lines_->next()) {
        return read_lines({.path = batch->file, .unpack = batch->unpack}, batch->text, batch->first_line, ids), true;
      }
      lines_.reset();
    }
    if (file_ == paths_.size()) return false;
    read_file(paths_[file_++], ids);
    return true;
  }
  std::optional<std::int64_t> bytes() const override { return bytes_; }

 private:
  void read_file(const std::string& path, std::vector<std::int32_t>& ids) {
    if (format_ == TextFormat::jsonl || (format_ == TextFormat::guess && named_json_lines(path))) {
      lines_.emplace(std::vector{path});
      return;
    }
    StoredInput input;
    const std::string text = read_all(path, &input);
    if (format_ == TextFormat::guess && looks_like_json_lines(text)) return read_lines(input, text, 1, ids);
    const std::string seems = format_ == TextFormat::guess ? describe_other_json(text, input.unpack, key_) : "";
    if (!seems.empty())
      fail(Exit::bad_data, input_name(path), ":1: ", seems, "; if it is plain text, add --format text");
    if (text.empty()) return;
    check_utf8(input_name(path), text, input.unpack);
    end_text_file(ids);
    add_text(text, ids);
    ends_with_eod_ = false;
  }

  void read_lines(const StoredInput& input, std::string_view text, std::int64_t first_line,
                  std::vector<std::int32_t>& ids) {
    for_each_line(text, first_line, 0, [&](std::string_view line, std::int64_t number, std::int64_t) {
      with_prefix([&] { extractor_.read(line, {number, input.unpack}); }, input_name(input.path), ":", number, ": ");
      end_text_file(ids);
      std::size_t before = ids.size();
      for (std::string_view document : extractor_.texts(0)) add_text(document, ids);
      if (ids.size() > before) ids.push_back(eod_);
    });
  }

  /// Appends the end-of-document token if the stream so far ends with a text file.
  void end_text_file(std::vector<std::int32_t>& ids) {
    if (!ends_with_eod_) ids.push_back(eod_);
    ends_with_eod_ = true;
  }

  void add_text(std::string_view text, std::vector<std::int32_t>& ids) {
    if (text.empty()) return;
    encoder_->append(text, ids);
    bytes_ += std::ssize(text);
  }

  std::vector<std::string> paths_;
  TextFormat format_;
  std::string key_;
  TextExtractor extractor_;
  std::unique_ptr<Encoder> encoder_;
  std::int32_t eod_;
  std::size_t file_ = 0;
  std::optional<LineReader> lines_;  // for the current file, if its format or name indicates JSON lines
  std::int64_t bytes_ = 0;
  bool ends_with_eod_ = true;  // false after a text file: the token must precede the next document
};

}  // namespace

std::unique_ptr<TokenSource> open_token_files(const std::string& path) { return std::make_unique<IndexedTokens>(path); }

std::unique_ptr<TokenSource> open_texts(std::vector<std::string> paths, TextFormat format, std::string key,
                                        const Tokenizer& tokenizer) {
  return std::make_unique<TextTokens>(std::move(paths), format, std::move(key), tokenizer);
}

}  // namespace mtl
