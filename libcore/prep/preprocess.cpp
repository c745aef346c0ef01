#include "prep/preprocess.h"

#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files.h"
#include "base/heartbeat.h"
#include "base/inputs.h"
#include "base/interrupt_guard.h"
#include "base/ordered.h"
#include "base/threads.h"
#include "prep/preprocess_batch.h"
#include "prep/preprocess_outputs.h"
#include "text/json_lines.h"

namespace mtl {

namespace {

/// We do not read a new batch while the batches in flight contain at least this many bytes of text.
constexpr std::size_t kTextBytes = std::size_t{256} << 20;

/// Returns the total stored size of all files, or nullopt if one is not a regular file.
std::optional<std::uint64_t> stored_bytes(const std::vector<std::string>& files) {
  std::uint64_t total = 0;
  for (const std::string& file : files) {
    struct stat info {};
    if ((file == "-" ? ::fstat(STDIN_FILENO, &info) : ::stat(file.c_str(), &info)) != 0 || !S_ISREG(info.st_mode))
      return {};
    total += static_cast<std::uint64_t>(info.st_size);
  }
  return total;
}

/// Makes one pass over the input, and processes the lines whose index modulo `parts` is `part`. Returns each file's
/// size and hash as read.
std::vector<StoredInput> run_pass(const PreprocessOptions& options, const std::vector<std::string>& files,
                                  const Tokenizer& tokenizer, std::int64_t part, std::int64_t parts,
                                  PreprocessOutputs& outputs) {
  const int threads = resolve_threads(options.workers);
  LineReaderOptions reading;
  reading.decode_threads = std::min(threads, 8);
  LineReader reader(files, reading);
  const std::uint64_t read_before = static_cast<std::uint64_t>(part) * stored_bytes(files).value_or(0);
  run_ordered<TokenBatch>(
      threads, [&] { return reader.next(); },
      [&] {
        return [&, worker = std::make_shared<BatchTokenizer>(options, tokenizer)](const LineBatch& lines) {
          TokenBatch batch = worker->tokenize(lines, part, parts);
          batch.stored_bytes += read_before;
          return batch;
        };
      },
      [&](const TokenBatch& batch) { outputs.add(batch); }, [](const LineBatch& lines) { return lines.text.size(); },
      kTextBytes);
  return reader.stored();
}

}  // namespace

Json preprocess(const PreprocessOptions& options, Console& console) {
  std::vector<std::string> files = find_inputs(options.inputs);
  std::unique_ptr<Tokenizer> tokenizer = load_tokenizer(options.tokenizer);
  // With --partitions, Megatron-LM assigns lines to partitions in round-robin order and writes one partition after
  // another. We make one pass per partition, which needs neither more memory nor temporary files.
  const std::int64_t parts = options.keep_sequential_samples ? 1 : options.partitions;
  std::optional<std::uint64_t> input_bytes = stored_bytes(files);
  if (!input_bytes && parts > 1) {
    fail_at(Exit::usage, cat("--partitions ", parts), "the input is read ", parts,
            " times, but a pipe can be read only once; add --keep-sequential-samples, or use files");
  }
  if (input_bytes) *input_bytes *= static_cast<std::uint64_t>(parts);
  InterruptGuard guard(console.program());  // must outlive the files that it removes after a signal
  PreprocessOutputs outputs(options, *tokenizer, files, input_bytes, guard, console);
  std::vector<StoredInput> stored;
  for (std::int64_t part = 0; part < parts; ++part) {
    const Heartbeat reading = reading_heartbeat(console, files, options.log_interval == 0 ? "" : "tokenizing");
    std::vector<StoredInput> now = run_pass(options, files, *tokenizer, part, parts, outputs);
    if (part > 0 && now != stored)
      fail(Exit::io, "the input changed while --partitions read it several times; start again when it is complete");
    stored = std::move(now);
  }
  outputs.finish(stored);
  Json summary = outputs.summary();
  if (summary.at("documents").as_int() == 0) console.warn("the input contains no documents; the output is empty");
  return summary;
}

}  // namespace mtl
