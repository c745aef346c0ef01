#include "cli/vocab_training.h"

#include <algorithm>
#include <memory>
#include <mutex>
#include <utility>

#include "base/error.h"
#include "base/files.h"
#include "base/inputs.h"
#include "base/interrupt_guard.h"
#include "base/json_cursor.h"
#include "base/ordered.h"
#include "base/output_lock.h"
#include "cli/run_main.h"
#include "text/bpe_trainer.h"
#include "text/json_lines.h"

namespace mtl {

namespace {

bool holds_json_lines(const VocabOptions& options, std::string_view file) {
  if (options.format != "auto") return options.format == "jsonl";
  for (std::string_view suffix : {".gz", ".xz", ".zst"}) {
    if (ends_with(file, suffix)) file.remove_suffix(suffix.size());
  }
  return ends_with(file, ".jsonl") || ends_with(file, ".json");
}

/// What is no UTF-8 is no text. `lines` and `column` (in bytes) lie before the text and are moved behind it.
void check_utf8(const std::string& path, std::string_view text, std::int64_t& lines, std::size_t& column) {
  const std::size_t bad = find_invalid_utf8(text);
  const std::string_view good = text.substr(0, bad);
  const std::size_t line_begin = good.rfind('\n') + 1;  // npos + 1 is 0
  lines += std::count(good.begin(), good.end(), '\n');
  column = line_begin == 0 ? column + good.size() : good.size() - line_begin;
  if (bad == std::string_view::npos) return;
  fail(Exit::bad_data, path, ":", lines + 1, ": invalid UTF-8 (column ", column + 1,
       "); convert the file, for example with iconv");
}

/// Standard input has no name that would tell what it holds.
void refuse_doubtful_input(const VocabOptions& options, const std::string& file, std::string_view beginning) {
  if (file != "-" || options.format != "auto" || !starts_with(trim(beginning), "{")) return;
  fail(Exit::usage, "--input -: begins like JSON lines; say what it is with --format jsonl, or --format text");
}

/// Parts of one text, cut where pre-tokens are cut anyway, so that a file of any size can be one document.
class TextReader {
 public:
  explicit TextReader(const std::string& path) : path_(path), source_(open_input(path)) {}

  std::optional<std::string> next() {
    std::size_t cut = std::string::npos, searched = kPartBytes;
    bool more = true;
    while (more && cut == std::string::npos) {
      std::size_t before = rest_.size();
      if (before > kMaxPartBytes)
        fail(Exit::bad_data, path_, ": ", kMaxPartBytes >> 20, " MiB without white space between; this is no text");
      rest_.resize(before + kPartBytes);
      std::size_t got = source_->read(rest_.data() + before, kPartBytes);
      rest_.resize(before + got);
      more = got > 0;
      cut = find_certain_cut(rest_, searched);
      searched = std::max(searched, rest_.size());
    }
    std::string part = rest_.substr(0, cut);
    rest_.erase(0, part.size());
    if (part.empty()) return {};
    check_utf8(path_, part, lines_, column_);  // parts are cut between characters
    return part;
  }

 private:
  static constexpr std::size_t kPartBytes = 1 << 20;
  static constexpr std::size_t kMaxPartBytes = 1 << 30;

  std::string path_;
  std::unique_ptr<ByteSource> source_;
  std::string rest_;
  std::int64_t lines_ = 0;  // before what comes next
  std::size_t column_ = 0;  // bytes of its line before it
};

/// Counts what `produce` gives with `count(counts, item)`, in threads. Each has a table of its own, which joins the
/// total whenever it has grown large: memory grows with the different words, hardly with the threads.
class Counter {
 public:
  Counter(const VocabOptions& options, Console& console)
      : threads_(resolve_threads(options.threads)), max_words_(options.max_words), console_(console) {}

  template <class Produce, class Count>
  void run(Produce produce, Count count) {
    run_ordered<std::uint64_t>(
        threads_, produce,
        [&] {
          WordCounts& held = *held_.emplace_back(std::make_unique<WordCounts>());
          return [&](const auto& item) {
            std::uint64_t bytes = count(held, item);
            if (held.size() > kHeldWords || held.bytes() > kBytesPerWord * kHeldWords) {
              take(held);
              check_limit();
            }
            return bytes;
          };
        },
        [&](std::uint64_t bytes) {
          bytes_ += bytes;
          console_.progress(format("%.1f MB counted, %.1f MB/s", mega(), mega() / seconds()));
        });
    for (const auto& held : held_) take(*held);
    held_.clear();
    check_limit();
  }

  const WordCounts& total() const { return total_; }
  std::uint64_t bytes() const { return bytes_; }
  double seconds() const { return now_seconds() - start_ + 1e-9; }
  double mega() const { return static_cast<double>(bytes_) / 1e6; }

 private:
  static constexpr std::uint64_t kHeldWords = 1 << 19, kBytesPerWord = 64;

  void take(WordCounts& counts) {
    std::lock_guard lock(mutex_);
    total_.add(counts);
    counts.clear();
  }
  void check_limit() {
    std::lock_guard lock(mutex_);
    auto limit = static_cast<std::uint64_t>(max_words_);
    const char* remedy = "; raise --max-words if there is memory for it, or train on a part of the text";
    if (total_.size() > limit) fail(Exit::failure, "more than ", max_words_, " different words", remedy);
    if (total_.bytes() / kBytesPerWord > limit) {
      fail(Exit::failure, "the different words have more than ", kBytesPerWord, " x ", max_words_, " bytes", remedy);
    }
  }

  int threads_;
  std::int64_t max_words_;
  Console& console_;
  std::vector<std::unique_ptr<WordCounts>> held_;  // of each thread
  std::mutex mutex_;
  WordCounts total_;
  std::uint64_t bytes_ = 0;
  double start_ = now_seconds();
};

void count_json_lines(const VocabOptions& options, const std::string& file, Counter& counter) {
  LineReader reader({file});
  counter.run([&] { return reader.next(); },
              [&](WordCounts& counts, const LineChunk& chunk) {
                TextExtractor extractor({options.json_key});
                std::uint64_t bytes = 0;
                for_each_line(chunk, [&](std::string_view line, std::int64_t number, std::int64_t) {
                  try {
                    extractor.read_padded(line);
                  } catch (const Error& error) {
                    fail(error.code(), chunk.file, ":", number, ": ", error.what());
                  }
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
                [&](WordCounts& counts, const LineChunk& chunk) {
                  if (chunk.first_line == 1) refuse_doubtful_input(options, file, chunk.text);
                  std::int64_t lines = chunk.first_line - 1;
                  std::size_t column = 0;
                  check_utf8(file, chunk.text, lines, column);
                  for_each_text_line(chunk.text, [&](std::string_view unit) { counts.add_text(unit); });
                  return std::uint64_t{chunk.text.size()};
                });
    return;
  }
  TextReader reader(file);
  auto next = [&, is_first = true]() mutable {
    std::optional<std::string> part = reader.next();
    if (part && std::exchange(is_first, false)) refuse_doubtful_input(options, file, *part);
    return part;
  };
  counter.run(next, [](WordCounts& counts, const std::string& part) {
    counts.add_text(part);
    return std::uint64_t{part.size()};
  });
}

BpeVocabulary merge_words(const VocabOptions& options, const WordCounts& counts, Console& console) {
  double start = now_seconds();
  BpeTraining training;
  training.vocab_size = options.vocab_size;
  training.special_tokens = options.special_tokens;
  training.min_frequency = options.min_frequency;
  training.on_merges = [&](std::size_t merges) {
    auto tokens = static_cast<std::int64_t>(merges + 256 + options.special_tokens.size());
    console.progress(cat(with_commas(tokens), " of ", with_commas(options.vocab_size), " tokens, ",
                         format("%.0f a second", static_cast<double>(merges) / (now_seconds() - start + 1e-9))));
  };
  BpeVocabulary vocabulary = train_bpe(counts, training);
  if (static_cast<std::int64_t>(vocabulary.tokens.size()) < options.vocab_size) {
    console.warn(cat("the text has no more pairs to join", options.min_frequency > 1 ? " that are frequent enough" : "",
                     ": ", vocabulary.tokens.size(), " tokens instead of ", options.vocab_size));
  }
  return vocabulary;
}

const char* const kFileEndings[] = {"-vocab.json", "-merges.txt", "-tokenizer.json"};

std::vector<std::string> output_names(const VocabOptions& options) {
  std::vector<std::string> names;
  for (const char* ending : kFileEndings) names.push_back(options.output_prefix + ending);
  return names;
}

/// All three files or none: they appear when all of them are complete on the disk, and an interrupt waits until they
/// have. Those of an earlier run go first, so that not even a kill leaves a vocabulary beside the merges of another.
void write_vocabulary(const BpeVocabulary& vocabulary, const std::vector<std::string>& names, InterruptGuard& guard,
                      std::vector<OutputLock>& locks) {
  const std::string contents[] = {vocab_json_text(vocabulary), merges_text(vocabulary),
                                  tokenizer_json_text(vocabulary)};
  std::vector<AtomicFile> files;
  for (std::size_t i = 0; i < names.size(); ++i) {
    files.emplace_back(names[i]).write(contents[i]);
    files.back().seal();
  }
  const auto kept = guard.keep_files();
  for (const std::string& name : names) remove_old_file(name);
  try {
    for (AtomicFile& file : files) file.commit();
  } catch (...) {
    std::error_code unknown;
    for (const std::string& name : names) fs::remove(name, unknown);
    throw;
  }
  locks.clear();
}

}  // namespace

Json train_vocab(const VocabOptions& options, Console& console) {
  double start = now_seconds();
  std::vector<std::string> files = find_inputs(options.inputs);
  const std::vector<std::string> names = output_names(options);
  InterruptGuard guard(console.program());  // outlives the files that it would remove
  std::vector<OutputLock> locks = claim_outputs({{options.output_prefix}, names, files}, guard, console);
  const bool has_json =
      std::any_of(files.begin(), files.end(), [&](const std::string& file) { return holds_json_lines(options, file); });
  if (!has_json && options.json_key != VocabOptions().json_key)
    console.info(
        cat("--json-key ", options.json_key, ": chooses nothing, no file is read as JSON lines; see --format"));
  Counter counter(options, console);
  for (const std::string& file : files) {
    if (holds_json_lines(options, file)) {
      count_json_lines(options, file, counter);
    } else {
      count_text(options, file, counter);
    }
  }
  double rate = counter.mega() / counter.seconds();
  BpeVocabulary vocabulary = merge_words(options, counter.total(), console);
  write_vocabulary(vocabulary, names, guard, locks);
  Json outputs = Json::array();
  for (const std::string& name : names) outputs.push(name);
  console.end_progress();
  return Json::object({{"schema", "mtl-vocab/1"},
                       {"vocab_size", static_cast<std::int64_t>(vocabulary.tokens.size())},
                       {"merges", static_cast<std::int64_t>(vocabulary.merges.size())},
                       {"words", static_cast<std::int64_t>(counter.total().size())},
                       {"bytes", counter.bytes()},
                       {"counted_mb_per_second", rate},
                       {"seconds", now_seconds() - start},
                       {"outputs", std::move(outputs)}});
}

}  // namespace mtl
