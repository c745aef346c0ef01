#include "prep/vocab_training.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/files.h"
#include "base/heartbeat.h"
#include "base/inputs.h"
#include "base/interrupt_guard.h"
#include "base/output_lock.h"
#include "prep/word_counting.h"

namespace mtl {

namespace {

BpeVocabulary merge_words(const VocabOptions& options, const WordCounts& counts, Console& console) {
  double start = now_seconds();
  BpeTraining training;
  training.vocab_size = options.vocab_size;
  training.special_tokens = options.special_tokens;
  training.min_frequency = options.min_frequency;
  training.on_merges = [&](std::size_t merges) {
    std::int64_t tokens = merges + 256 + options.special_tokens.size();
    console.progress(cat(with_commas(tokens), " of ", with_commas(options.vocab_size), " tokens, ",
                         format("%.0f a second", double(merges) / (now_seconds() - start + 1e-9))));
  };
  BpeVocabulary vocabulary = train_bpe(counts, training);
  if (std::ssize(vocabulary.tokens) < options.vocab_size) {
    console.warn(cat("the vocabulary has ", vocabulary.tokens.size(), " tokens instead of ", options.vocab_size,
                     ", because the text has no more pairs to merge",
                     options.min_frequency > 1 ? cat(" that occur ", options.min_frequency, " times") : ""));
  }
  return vocabulary;
}

const char* const kFileEndings[] = {"-vocab.json", "-merges.txt", "-tokenizer.json"};

std::vector<std::string> output_names(const VocabOptions& options) {
  return texts_of(kFileEndings, [&](const char* ending) { return options.output_prefix + ending; });
}

/// Writes either all three files or none. Renames the files when all of them are complete on disk, and defers
/// interrupts during the renames. Before that, removes an earlier run's files, so that even a killed run never leaves a
/// vocabulary together with another vocabulary's merges.
void write_vocabulary(const BpeVocabulary& vocabulary, const std::vector<std::string>& names, InterruptGuard& guard) {
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
}

}  // namespace

Json train_vocab(const VocabOptions& options, Console& console) {
  double start = now_seconds();
  std::vector<std::string> files = find_inputs(options.inputs);
  std::vector<std::string> read = files;
  read.push_back(options.config_file);
  const std::vector<std::string> names = output_names(options);
  InterruptGuard guard(console.program());  // must outlive the files that it removes after a signal
  const std::vector<OutputLock> locks =
      claim_outputs({.prefixes = {options.output_prefix}, .names = names, .inputs = read}, guard, console);
  const bool has_json =
      std::ranges::any_of(files, [&](const std::string& file) { return holds_json_lines(options, file); });
  if (!has_json && options.json_key != VocabOptions().json_key)
    console.info(
        cat("--json-key ", options.json_key,
            " has no effect, because no input is read as JSON lines; use --format jsonl if the input is JSON lines"));
  const Heartbeat working = reading_heartbeat(console, files, "making the vocabulary");
  const CountedWords counted = count_words(options, files, console);
  const double rate = double(counted.bytes) / 1e6 / counted.seconds;
  BpeVocabulary vocabulary = merge_words(options, counted.words, console);
  write_vocabulary(vocabulary, names, guard);
  console.end_progress();
  return Json::object({{"schema", "mtl-vocab/1"},
                       {"vocab_size", std::ssize(vocabulary.tokens)},
                       {"merges", std::ssize(vocabulary.merges)},
                       {"words", std::ssize(counted.words)},
                       {"bytes", counted.bytes},
                       {"counted_mb_per_second", rate},
                       {"seconds", now_seconds() - start},
                       {"outputs", Json::Array(names.begin(), names.end())}});
}

}  // namespace mtl
