#include "prep/word_counting.h"

#include <algorithm>
#include <memory>
#include <mutex>
#include <utility>

#include "base/error.h"
#include "base/ordered.h"
#include "base/threads.h"
#include "text/json_lines.h"
#include "text/other_formats.h"

namespace mtl {

namespace {

/// How many bytes of a text are read at least before it is cut.
constexpr std::size_t kPartBytes = 1 << 20;

/// With --format auto, rejects text that begins like JSON: its syntax would become part of the vocabulary.
void refuse_doubtful_input(const VocabOptions& options, const StoredInput& input, std::string_view beginning) {
  if (options.format != "auto") return;
  const std::string_view text = trim(beginning);
  // If the first line goes on in the next part, no parser finds its end.
  const bool is_cut = beginning.size() >= kPartBytes && text.find('\n') == std::string_view::npos;
  const auto begins_with_string_in = [&](std::string_view bracket) {
    return starts_with(text, bracket) && starts_with(trim(text.substr(1)), "\"");
  };
  if (looks_like_json_lines(text) || (is_cut && begins_with_string_in("{")))
    fail(Exit::usage, input_name(input.path), " looks like JSON lines; choose --format jsonl or --format text");
  const std::string seems = is_cut && begins_with_string_in("[")
                                ? describe_bad_line(text, {1, input.unpack}, options.json_key)
                                : describe_other_json(text, input.unpack, options.json_key);
  if (!seems.empty())
    fail(Exit::bad_data, input_name(input.path), ":1: ", seems, "; if it is plain text, add --format text");
}

/// Reads one text in parts, cut between pre-tokens, so that a file of any size can be one document.
class TextReader {
 public:
  explicit TextReader(const std::string& path) : path_(input_name(path)), source_(open_input(path)) {}

  std::optional<std::string> next() {
    std::size_t cut = std::string::npos, searched = kPartBytes;
    bool more = true;
    while (more && cut == std::string::npos) {
      std::size_t before = pending_.size();
      if (before > kMaxPartBytes)
        fail(Exit::bad_data, path_, " has ", human_bytes(kMaxPartBytes), " without whitespace, so it is not text");
      pending_.resize(before + kPartBytes);
      std::size_t read_bytes = source_->read(pending_.data() + before, kPartBytes);
      pending_.resize(before + read_bytes);
      more = read_bytes > 0;
      cut = find_safe_cut(pending_, searched);
      searched = std::max(searched, pending_.size());
    }
    std::string part = pending_.substr(0, cut);
    pending_.erase(0, part.size());
    if (part.empty()) return {};
    place_ = check_utf8(path_, part, stored().unpack, place_);  // parts are cut between characters
    return part;
  }
  StoredInput stored() const { return source_->stored(); }

 private:
  static constexpr std::size_t kMaxPartBytes = 256 << 20;

  std::string path_;
  std::unique_ptr<ByteSource> source_;
  std::string pending_;
  TextPlace place_;  // of the next part
};

/// Calls count(counts, item) for the items that `produce` returns, on multiple threads. Each thread has its own table,
/// which is added to the total when it becomes large. So memory use depends on the number of distinct words, and hardly
/// on the number of threads.
class Counter {
 public:
  Counter(const VocabOptions& options, Console& console)
      : threads_(resolve_threads(options.threads)), max_words_(options.max_words), console_(console) {}

  template <class Produce, class Count>
  void run(Produce produce, Count count) {
    run_ordered<std::uint64_t>(
        threads_, produce,
        [&] {
          WordCounts& counts = *thread_counts_.emplace_back(std::make_unique<WordCounts>());
          return [&](const auto& item) {
            std::uint64_t bytes = count(counts, item);
            if (counts.size() > kThreadWords || counts.bytes() > kBytesPerWord * kThreadWords) {
              add_to_total(counts);
              check_limit();
            }
            return bytes;
          };
        },
        [&](std::uint64_t bytes) {
          bytes_ += bytes;
          console_.progress(format("%.1f MB counted, %.1f MB/s", mega(), mega() / seconds()));
        });
    for (const auto& counts : thread_counts_) add_to_total(*counts);
    thread_counts_.clear();
    check_limit();
  }

  CountedWords result() { return {std::move(total_), bytes_, seconds()}; }

 private:
  static constexpr std::uint64_t kThreadWords = 1 << 19, kBytesPerWord = 64;

  double seconds() const { return now_seconds() - start_ + 1e-9; }
  double mega() const { return double(bytes_) / 1e6; }

  void add_to_total(WordCounts& counts) {
    std::lock_guard lock(mutex_);
    total_.add(counts);
    counts.clear();
  }
  void check_limit() {
    std::lock_guard lock(mutex_);
    auto limit = static_cast<std::uint64_t>(max_words_);
    const char* remedy = "; raise --max-words if there is memory for it, or train on a part of the text";
    if (total_.size() > limit) fail(Exit::failure, "the text has more than ", max_words_, " distinct words", remedy);
    if (total_.bytes() / kBytesPerWord > limit) {
      fail(Exit::failure, "the distinct words have more than ", kBytesPerWord, " bytes for each of --max-words ",
           max_words_, remedy);
    }
  }

  int threads_;
  std::int64_t max_words_;
  Console& console_;
  std::vector<std::unique_ptr<WordCounts>> thread_counts_;
  std::mutex mutex_;
  WordCounts total_;
  std::uint64_t bytes_ = 0;
  double start_ = now_seconds();
};

void count_json_lines(const VocabOptions& options, const std::string& file, Counter& counter) {
  LineReader reader({file});
  counter.run(
      [&] { return reader.next(); },
      [&](WordCounts& counts, const LineBatch& batch) {
        TextExtractor extractor({options.json_key});
        std::uint64_t bytes = 0;
        for_each_line(batch, [&](std::string_view line, std::int64_t number, std::int64_t) {
          with_prefix([&] { extractor.read_padded(line, {number, batch.unpack}); }, batch.file, ":", number, ": ");
          for (std::string_view text : extractor.texts(0)) {
            bytes += text.size();
            if (options.unit == "document")
              counts.add_text(text);
            else
              for_each_text_line(text, [&](std::string_view unit) { counts.add_text(unit); });
          }
        });
        return bytes;
      });
}

void count_text(const VocabOptions& options, const std::string& file, Counter& counter) {
  if (options.unit == "line") {
    LineReader reader({file});
    counter.run([&] { return reader.next(); },
                [&](WordCounts& counts, const LineBatch& batch) {
                  const StoredInput input{.path = file, .unpack = batch.unpack};
                  if (batch.first_line == 1) refuse_doubtful_input(options, input, batch.text);
                  check_utf8(input_name(file), batch.text, batch.unpack, {.lines = batch.first_line - 1});
                  for_each_text_line(batch.text, [&](std::string_view unit) { counts.add_text(unit); });
                  return std::uint64_t{batch.text.size()};
                });
    return;
  }
  TextReader reader(file);
  auto next = [&, is_first = true]() mutable {
    std::optional<std::string> part = reader.next();
    if (part && std::exchange(is_first, false)) refuse_doubtful_input(options, reader.stored(), *part);
    return part;
  };
  counter.run(next, [](WordCounts& counts, const std::string& part) {
    counts.add_text(part);
    return std::uint64_t{part.size()};
  });
}

}  // namespace

bool holds_json_lines(const VocabOptions& options, std::string_view file) {
  return options.format == "auto" ? named_json_lines(file) : options.format == "jsonl";
}

CountedWords count_words(const VocabOptions& options, const std::vector<std::string>& files, Console& console) {
  Counter counter(options, console);
  for (const std::string& file : files) {
    if (holds_json_lines(options, file)) {
      count_json_lines(options, file, counter);
    } else {
      count_text(options, file, counter);
    }
  }
  return counter.result();
}

}  // namespace mtl
