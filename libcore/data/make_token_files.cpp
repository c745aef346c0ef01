#include "data/make_token_files.h"

#include <algorithm>
#include <utility>

#include "base/disk_space.h"
#include "base/files.h"
#include "base/interrupt_guard.h"
#include "base/mapped_pages.h"
#include "base/output_lock.h"
#include "base/threads.h"
#include "data/provenance.h"
#include "data/publish.h"

namespace mtl {
namespace {

std::string mega(double bytes) { return format("%.1f MB", bytes / 1e6); }

std::vector<DocumentCopy> copy_parts(const MakeOptions& options, const std::vector<const IndexedDataset*>& inputs,
                                     const MergeTraits& traits, const std::vector<DataPart>& parts,
                                     ByteProgress& progress) {
  std::vector<DocumentCopy> copies;
  copies.reserve(parts.size());
  std::uint64_t mapped = 0;
  for (const DataPart& part : parts) {
    DocumentCopy& copy = copies.emplace_back(part.prefix, traits.type, traits.has_modes);
    copy.write(part.documents, resolve_threads(options.threads), [&](std::uint64_t done) {
      progress.add(done);
      if ((mapped += done) < kMappedPages) return;
      for (const IndexedDataset* input : inputs) release_pages(input->bin_file());
      mapped = 0;
    });
  }
  return copies;
}

}  // namespace

std::vector<std::string> files_of(const std::vector<const IndexedDataset*>& inputs) {
  std::vector<std::string> files;
  for (const IndexedDataset* input : inputs) {
    for (const char* ending : {".bin", ".idx", ".json"}) files.push_back(input->prefix() + ending);
  }
  return files;
}

void require_space(const std::string& path, std::uint64_t bytes) {
  const auto free = free_disk_bytes(parent_folder(path));
  if (!free || *free >= bytes) return;  // if the free space is unknown, a write may fail later
  fail(Exit::io, path, " needs ", human_bytes(bytes), ", but its disk has ", human_bytes(*free),
       " free; free some space, or write to another disk");
}

ByteProgress::ByteProgress(Console& console, std::uint64_t total)
    : console_(console), total_(total), start_(now_seconds()) {}

void ByteProgress::add(std::uint64_t bytes) {
  done_ += bytes;
  const double rate = double(done_) / (seconds() + 1e-9);
  const std::uint64_t left = total_ - std::min(total_, done_);
  console_.progress(cat(mega(done_), " of ", mega(total_), ", ", mega(rate), "/s, ",
                        human_seconds(double(left) / (rate + 1e-9)), " left"));
}

double ByteProgress::seconds() const { return now_seconds() - start_; }

TokenFilesMade make_token_files(const MakeOptions& options, const std::vector<const IndexedDataset*>& inputs,
                                const MergeTraits& traits, const std::vector<DataPart>& parts, Console& console) {
  std::vector<std::string> prefixes, files;
  for (const DataPart& part : parts) {
    prefixes.push_back(part.prefix);
    for (const char* ending : {".bin", ".idx", ".json"}) files.push_back(part.prefix + ending);
  }
  std::vector<std::string> read = files_of(inputs);
  read.push_back(options.config_file);
  std::uint64_t bin_bytes = 0, bytes = 0;
  for (const IndexedDataset* input : inputs) {
    const std::uint64_t written = input->tokens() * item_size(traits.type);
    bin_bytes += written;
    bytes += written + input->idx_bytes();
  }

  InterruptGuard guard(console.program());  // destroyed after the files it would remove
  const std::vector<OutputLock> locks =
      claim_outputs({.prefixes = prefixes, .names = files, .inputs = read}, guard, console);
  for (const std::string& prefix : prefixes) require_space(prefix, bytes);
  ByteProgress progress(console, bin_bytes);
  std::vector<DocumentCopy> copies = copy_parts(options, inputs, traits, parts, progress);
  const Json sources = describe_inputs(inputs), tokenizer = common_tokenizer(inputs);
  for (const IndexedDataset* input : inputs) input->check_sizes();
  std::vector<Json> outputs;
  std::vector<SealedTokenFiles> sealed;
  for (DocumentCopy& copy : copies) {
    outputs.push_back(describe_output(copy.written()));
    sealed.emplace_back(make_provenance(options.command.front(), options.command, tokenizer, sources, outputs.back()),
                        copy.files());
  }
  {
    const auto kept = guard.keep_files();
    publish_token_files(sealed);
  }
  console.end_progress();
  return {std::move(outputs), progress.seconds()};
}

}  // namespace mtl
