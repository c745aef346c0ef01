#include "data/export_tokens.h"

#include <algorithm>
#include <span>

#include "base/error.h"
#include "base/interrupt_guard.h"
#include "base/mapped_pages.h"
#include "base/output_lock.h"
#include "data/make_token_files.h"
#include "data/npy.h"
#include "data/token_counts.h"

namespace mtl {
namespace {

using Bytes = std::span<const std::byte>;

/// Calls use(block, first) for the stored tokens in blocks; `first` is the index of the block's first token.
template <class Use>
void for_each_block(const IndexedDataset& data, const Use& use) {
  const std::size_t block_bytes = kConversionTokens * item_size(data.type());
  std::int64_t first = 0;
  std::uint64_t mapped = 0;
  for (Bytes unread = data.bin_file().bytes(); !unread.empty();) {
    const Bytes block = unread.first(std::min(unread.size(), block_bytes));
    use(block, first);
    first += kConversionTokens;
    unread = unread.subspan(block.size());
    if ((mapped += block.size()) < kMappedPages) continue;
    release_pages(data.bin_file());
    mapped = 0;
  }
}

void write_as_stored(const IndexedDataset& data, AtomicFile& file, ByteProgress& progress) {
  file.write(npy_header(data.type(), data.tokens()));
  for_each_block(data, [&](Bytes block, std::int64_t) {
    file.write(block.data(), block.size());
    progress.add(block.size());
  });
}

void write_as(const IndexedDataset& data, TokenFormat format, IntegerType to, AtomicFile& file,
              ByteProgress& progress) {
  std::vector<std::byte> converted(kConversionTokens * to.bytes);
  file.write(flat_header(format, to, data.tokens()));
  for_each_block(data, [&](Bytes block, std::int64_t first) {
    convert_tokens(data, first, block, to, converted.data());
    file.write(converted.data(), block.size() / item_size(data.type()) * to.bytes);
    progress.add(block.size());
  });
}

}  // namespace

IntegerType default_export_type(const IndexedDataset& data, TokenFormat format) {
  if (!is_integer(data.type()))
    fail_at(Exit::bad_data, data.idx_file().path(), "stores ", name_of(data.type()),
            " values, not token ids; use --format npy without --token-type");
  const IntegerType stored = integer_type(data.type());
  if (format == TokenFormat::npy) return stored;
  return stored.bytes > 2 ? kU32 : kU16;
}

Json export_tokens(const ExportOptions& options, const IndexedDataset& data, Console& console) {
  std::vector<std::string> read = files_of({&data});
  read.push_back(options.config_file);
  const bool as_stored = options.format == TokenFormat::npy && !options.type;
  const auto type = as_stored ? std::nullopt : std::optional(default_export_type(data, options.format));
  const IntegerType to = options.type.value_or(type.value_or(kU16));
  InterruptGuard guard(console.program());  // must outlive `file`
  std::vector<OutputLock> locks;
  std::error_code unknown;                                 // ignored: opening the file reports the error
  if (!fs::is_other(options.output, unknown)) {            // a device or FIFO is written in place
    const std::string name = follow_link(options.output);  // a link stays, and its target is replaced
    locks = claim_outputs({.prefixes = {dataset_prefix(name)}, .names = {name}, .inputs = read, .flag = "--output"},
                          guard, console);
    require_space(name, data.tokens() * (as_stored ? item_size(data.type()) : to.bytes));
  }
  ByteProgress progress(console, data.bin_bytes());
  AtomicFile file(options.output, &guard);
  if (as_stored)
    write_as_stored(data, file, progress);
  else
    write_as(data, options.format, to, file, progress);
  data.check_sizes();
  Json made = Json::object({{"schema", "mtl-data-export/1"},
                            {"output", options.output},
                            {"format", name_of(options.format)},
                            {"dtype", as_stored ? std::string(name_of(data.type())) : name_of(to)},
                            {"tokens", data.tokens()},
                            {"bytes", file.out().bytes()},
                            {"xxh3", hash_text(file.out().hash())}});
  file.commit();
  console.end_progress();
  return made;
}

}  // namespace mtl
