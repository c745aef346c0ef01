#include "cli/vocab_training.h"

#include <memory>

#include "base/error.h"
#include "base/files.h"
#include "cli/inputs.h"
#include "cli/run_main.h"
#include "text/bpe_trainer.h"
#include "text/json_lines.h"
#include "text/ordered.h"

namespace mtl {

namespace {

bool holds_json_lines(const VocabOptions& options, std::string_view file) {
  if (options.format != "auto") return options.format == "jsonl";
  for (std::string_view suffix : {".gz", ".xz", ".zst"}) {
    if (ends_with(file, suffix)) file.remove_suffix(suffix.size());
  }
  return ends_with(file, ".jsonl") || ends_with(file, ".json");
}

/// Parts of one text, cut where pre-tokens are cut anyway, so that a file of any size can be one document.
class TextReader {
 public:
  explicit TextReader(const std::string& path) : source_(open_input(path)) {}

  std::optional<std::string> next() {
    std::size_t cut = std::string::npos, searched = kPartBytes;
    bool more = true;
    while (more && cut == std::string::npos) {
      std::size_t before = rest_.size();
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
    return part;
  }

 private:
  static constexpr std::size_t kPartBytes = 1 << 20;
  std::unique_ptr<ByteSource> source_;
  std::string rest_;
};

/// Counts what `produce` gives with `count(counts, item)`, in threads.
class Counter {
 public:
  Counter(const VocabOptions& options, Console& console)
      : threads_(resolve_threads(options.threads)), console_(console) {}

  template <class Produce, class Count>
  void run(Produce produce, Count count) {
    run_ordered<std::uint64_t>(
        threads_, produce,
        [&] {
          return [&, held = std::make_shared<Held>(*this)](const auto& item) { return count(held->counts, item); };
        },
        [&](std::uint64_t bytes) {
          bytes_ += bytes;
          console_.progress(format("%.1f MB counted", static_cast<double>(bytes_) / 1e6));
        });
  }

  const WordCounts& total() const { return total_; }
  std::uint64_t bytes() const { return bytes_; }

 private:
  /// The counts of one thread; they join the total when run_ordered is done with them, in the calling thread.
  struct Held {
    explicit Held(Counter& owner) : owner(owner) {}
    ~Held() { owner.total_.add(counts); }
    Counter& owner;
    WordCounts counts;
  };
  int threads_;
  Console& console_;
  WordCounts total_;
  std::uint64_t bytes_ = 0;
};

void count_json_lines(const VocabOptions& options, const std::string& file, Counter& counter) {
  LineReader reader({file});
  counter.run([&] { return reader.next(); },
              [&](WordCounts& counts, const LineChunk& chunk) {
                TextExtractor extractor({options.json_key});
                std::uint64_t bytes = 0;
                for_each_line(chunk, [&](std::string_view line, std::int64_t number, std::int64_t) {
                  try {
                    extractor.read(line);
                  } catch (const Error& error) {
                    fail(error.code(), chunk.file, ":", number, ": ", error.what());
                  }
                  for (const std::string& text : extractor.texts(0)) {
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
                [](WordCounts& counts, const LineChunk& chunk) {
                  for_each_text_line(chunk.text, [&](std::string_view unit) { counts.add_text(unit); });
                  return std::uint64_t{chunk.text.size()};
                });
    return;
  }
  TextReader reader(file);
  counter.run([&] { return reader.next(); },
              [](WordCounts& counts, const std::string& part) {
                counts.add_text(part);
                return std::uint64_t{part.size()};
              });
}

}  // namespace

Json train_vocab(const VocabOptions& options, Console& console) {
  double start = now_seconds();
  std::vector<std::string> files = find_inputs(options.inputs);
  make_directories(fs::path(options.output_prefix).parent_path());
  Counter counter(options, console);
  for (const std::string& file : files) {
    if (holds_json_lines(options, file)) {
      count_json_lines(options, file, counter);
    } else {
      count_text(options, file, counter);
    }
  }
  BpeVocabulary vocabulary = train_bpe(counter.total(), options.vocab_size, options.special_tokens);
  if (static_cast<std::int64_t>(vocabulary.tokens.size()) < options.vocab_size) {
    console.warn(cat("the text has no more pairs to join: ", vocabulary.tokens.size(), " tokens instead of ",
                     options.vocab_size));
  }
  Json outputs = Json::array();
  auto write = [&](const char* name, const std::string& content) {
    std::string path = options.output_prefix + name;
    write_file_atomic(path, content);
    outputs.push(path);
  };
  write("-vocab.json", vocab_json_text(vocabulary));
  write("-merges.txt", merges_text(vocabulary));
  write("-tokenizer.json", tokenizer_json_text(vocabulary));
  console.end_progress();
  return Json::object({{"schema", "mtl-vocab/1"},
                       {"vocab_size", static_cast<std::int64_t>(vocabulary.tokens.size())},
                       {"merges", static_cast<std::int64_t>(vocabulary.merges.size())},
                       {"words", static_cast<std::int64_t>(counter.total().size())},
                       {"bytes", counter.bytes()},
                       {"seconds", now_seconds() - start},
                       {"outputs", std::move(outputs)}});
}

}  // namespace mtl
