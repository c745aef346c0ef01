// mtl-preprocess's outputs: token files, bad lines, provenance, progress and summary.
//
// Files get their final names only in finish(), which first syncs every file for every key and then renames them all
// (data/publish.h).
#pragma once

#include <future>
#include <optional>
#include <string>
#include <vector>

#include "base/interrupt_guard.h"
#include "base/output_lock.h"
#include "data/indexed_dataset.h"
#include "prep/preprocess.h"
#include "prep/preprocess_batch.h"
#include "text/decompress.h"

namespace mtl {

class PreprocessOutputs {
 public:
  /// `inputs` are the files that the run reads, besides the tokenizer's. All passes together will read `input_bytes`,
  /// as stored; empty if unknown. Throws claim_outputs()'s errors.
  PreprocessOutputs(const PreprocessOptions& options, const Tokenizer& tokenizer,
                    const std::vector<std::string>& inputs, std::optional<std::uint64_t> input_bytes,
                    InterruptGuard& guard, Console& console);

  /// Throws Error(bad_data) for a bad line beyond --skip-bad, and Error(io) that gives the needed space if a disk is
  /// full.
  void add(const TokenBatch& batch);
  void finish(const std::vector<StoredInput>& inputs);
  Json summary() const;

 private:
  void write(const TokenBatch& batch);
  void publish(const std::vector<StoredInput>& inputs);
  [[noreturn]] void fail_full(const NoSpaceError& error) const;
  void report(double interval_seconds);
  void reject(const BadLine& bad);
  Json output(std::size_t k) const;
  Json provenance(std::size_t k, const std::vector<StoredInput>& inputs) const;
  std::string prefix_of(std::size_t k) const;
  std::string rejects_path() const { return options_.output_prefix + ".rejects.jsonl"; }
  std::vector<std::string> output_names() const;
  std::int64_t tokens() const;
  double output_bytes() const;
  double mega() const { return double(bytes_) / 1e6; }
  double seconds() const { return now_seconds() - start_ + 1e-9; }

  const PreprocessOptions& options_;
  const Tokenizer& tokenizer_;
  std::optional<std::uint64_t> input_bytes_;
  InterruptGuard& guard_;
  Console& console_;
  DataType type_;
  std::shared_future<std::uint64_t> tokenizer_hash_;
  std::vector<OutputLock> locks_;
  std::vector<IndexedDatasetWriter> writers_;
  std::optional<AtomicFile> rejects_;
  std::int64_t documents_ = 0, skipped_ = 0;
  std::uint64_t bytes_ = 0, stored_bytes_ = 0;  // of text; of stored input, read in all passes
  std::uint64_t file_bytes_ = 0;                // in the input files; set by finish()
  double start_ = now_seconds();
};

}  // namespace mtl
